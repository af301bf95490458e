"use strict";
// What the page of a fleet can do beyond being read: filter, copy, and put together all that was
// judged of one node. It adds to what stands there and asks nobody for anything.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const numbers = (ranges) => {
    const found = new Set();
    for (const range of ranges ? ranges.split(",") : []) {
      const [first, last] = range.split("-").map(Number);
      for (let at = first; at <= (last ?? first); at++) found.add(at);
    }
    return found;
  };
  const make = (name, text = "", kind = "") => {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = kind;
    return made;
  };

  // Nodes, and what can be searched of each: its name, its state, and what fails there.
  const nodes = all(".node").map((part) => ({
    part,
    state: part.dataset.state,
    named: part.querySelector("summary b").textContent,
    name: part.querySelector("summary b").textContent.toLowerCase(),
    text: part.textContent.toLowerCase(),
  }));
  const about = (part) => ({ part, of: numbers(part.dataset.n), text: part.textContent.toLowerCase() });
  // What is said of several nodes at once. Details of "what is fine" are left alone: they are many.
  const findings = all(".finding, .open").map(about);
  const groups = all(".matrix tbody tr, .grid, .odd").map(about);

  const words = document.getElementById("words");
  const state = document.getElementById("state");
  const shown = document.getElementById("shown");

  const filter = () => {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = new Set();
    nodes.forEach((node, at) => {
      const fits = (!state.value || node.state === state.value) && asked.every((word) => node.text.includes(word));
      node.part.classList.toggle("away", !fits);
      if (fits) left.add(at);
    });
    const idle = !asked.length && !state.value;
    let found = 0;
    for (const each of findings) {
      const mine = [...each.of].filter((at) => left.has(at));
      const fits = idle || (mine.length > 0 && asked.every(
        (word) => each.text.includes(word) || mine.some((at) => nodes[at].name.includes(word))));
      each.part.classList.toggle("away", !fits);
      found += fits ? 1 : 0;
    }
    for (const block of all("#findings .block")) {
      block.classList.toggle("away", !idle && !block.querySelector(".finding:not(.away), .open:not(.away)"));
    }
    for (const each of groups) {
      each.part.classList.toggle("away", !idle && ![...each.of].some((at) => left.has(at)));
    }
    shown.textContent = idle
      ? `${nodes.length.toLocaleString("en")} nodes`
      : `${left.size.toLocaleString("en")} of ${nodes.length.toLocaleString("en")} nodes, ${found} findings`;
  };

  // All that was judged of one node, made of what is told of many, when it is first opened.
  const judged = (details, number) => {
    const box = make("div", "", "judged");
    box.append(make("h3", "All that was judged of it"));
    const parts = all("#findings .finding, #grids > .grid, #carries > .grid, #odd > .odd, #fine > .fine");
    for (const part of parts) {
      if (!numbers(part.dataset.n).has(number)) continue;
      const copy = part.cloneNode(true);
      for (const each of [copy, ...all("[id]", copy)]) each.removeAttribute("id");
      copy.removeAttribute("aria-labelledby");
      copy.classList.remove("away");
      all(".hosts, button, header .count, summary .count, .odd summary b", copy).forEach((each) => each.remove());
      for (const each of all(".wording, .place", copy)) {
        if (!numbers(each.dataset.n).has(number)) each.remove();
        else all(":scope > .muted.where", each).forEach((one) => one.remove());
      }
      for (const pre of all(".command pre", copy)) {
        // A command that names hosts ends with them; here it is meant for this node alone.
        pre.textContent = pre.textContent.replace(/ --hosts .*$/, () => ` --hosts ${quoted(nodes[number].named)}`);
      }
      copyable(copy);
      box.append(copy);
    }
    details.append(box);
  };

  // As a shell takes it for one word.
  const quoted = (name) => (/^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\"'\"'")}'`);
  const copyable = (within) => {
    for (const command of all(".command", within)) {
      const button = make("button", "Copy");
      button.type = "button";
      button.addEventListener("click", () => copy(command.querySelector("pre"), button));
      command.append(button);
    }
  };
  const copy = async (pre, button) => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
    } catch {
      // Without leave for the clipboard the words are selected, for the reader's own copying.
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
      return;
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  };

  nodes.forEach((node, number) => node.part.addEventListener("toggle", () => {
    if (node.part.open && !node.part.querySelector(".judged")) judged(node.part, number);
  }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      words.focus();
    } else if (event.key === "Escape" && document.activeElement === words) {
      words.value = "";
      filter();
    }
  });
  // What a link leads to is shown, whatever is filtered.
  const arrive = () => {
    const part = location.hash && document.getElementById(location.hash.slice(1));
    if (!part) return;
    if (part.closest(".away")) {
      words.value = state.value = "";
      filter();
      part.scrollIntoView();
    }
    if (part.matches("details")) part.open = true;
  };
  addEventListener("hashchange", arrive);
  words.addEventListener("input", filter);
  state.addEventListener("change", filter);
  document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("filter").hidden = false;
  copyable(document.querySelector("#findings"));
  filter();
  arrive();
})();
