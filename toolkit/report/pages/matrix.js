"use strict";
// What the matrix of pairs can do beyond being read: one rail at a time, nodes in another order or
// by name, other figures, and a way from pair to pair by the arrow keys. It asks nobody for anything.
(() => {
  const get = (id) => document.getElementById(id);
  const said = get("said");
  const rails = [...document.querySelectorAll(".rail")];
  const state = { order: "name", words: "", figures: "share" };

  // Rows as they were written; cells of a row by the node of their column.
  const tables = new Map(rails.map((rail) => {
    const table = rail.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    const cells = rows.map((row) => [...row.cells].slice(1));
    return [rail.id, { table, rows, cells, heads: [...table.tHead.rows[0].cells].slice(1) }];
  }));
  const names = tables.size ? tables.values().next().value.rows.map((row) => row.cells[0].textContent) : [];
  for (const { cells } of tables.values()) {
    for (const row of cells) for (const cell of row) if (cell.dataset.m) cell.dataset.s = cell.textContent;
  }

  const shares = (row) => row.filter((cell) => cell.dataset.s).map((cell) => (cell.dataset.s === "?" ? 0 : Number(cell.dataset.s)));
  const rank = {
    name: () => 0,
    worst: (row) => Math.min(9, ...shares(row)),
    mean: (row) => { const all = shares(row); return all.length ? all.reduce((a, b) => a + b, 0) / all.length : 9; },
  };

  const current = () => get("rail").value;
  const show = () => {
    const asked = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    for (const rail of rails) rail.classList.toggle("away", rail.id !== current());
    const { table, rows, cells, heads } = tables.get(current());
    const ranks = cells.map(rank[state.order]);
    const order = names.map((_, at) => at).sort((a, b) => ranks[a] - ranks[b] || a - b);
    const left = new Set(order.filter((at) => asked.every((word) => names[at].toLowerCase().includes(word))));
    // Of the node that is asked for all its pairs are of interest, so only rows go.
    const body = table.tBodies[0];
    const head = table.tHead.rows[0];
    const moved = order.some((at, place) => body.rows[place] !== rows[at]);
    if (moved) {
      head.append(...order.map((at) => heads[at]));
      for (const row of order) rows[row].append(...order.map((at) => cells[row][at]));
      body.append(...order.map((at) => rows[at]));
    }
    rows.forEach((row, at) => row.classList.toggle("away", !left.has(at)));
    const key = { share: "s", measured: "m", predicted: "p" }[state.figures];
    table.classList.toggle("wide", key !== "s");
    for (const row of cells) for (const cell of row) if (cell.dataset.m && cell.textContent !== cell.dataset[key]) cell.textContent = cell.dataset[key];
    said.textContent = left.size === names.length ? `${names.length} nodes` : `${left.size} of ${names.length} nodes`;
  };

  // One cell can be come to by Tab; arrows go on from there.
  let stop = null;
  const stand = (cell) => {
    if (stop) stop.tabIndex = -1;
    stop = cell;
    cell.tabIndex = 0;
  };
  const tell = (cell) => {
    const row = cell.parentElement.cells[0].textContent;
    const column = cell.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent;
    const what = cell.dataset.m ? `${cell.dataset.m} of ${cell.dataset.p}, ${cell.dataset.s}` : "not run";
    said.textContent = `${row} with ${column}: ${what}`;
  };
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const go = (event) => {
    const cell = event.target.closest("td");
    const step = STEPS[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    let row = cell.parentElement;
    do { row = step[0] < 0 ? row.previousElementSibling : step[0] > 0 ? row.nextElementSibling : row; }
    while (step[0] && row && row.classList.contains("away"));
    const next = row && row.cells[cell.cellIndex + step[1]];
    if (!next || next.tagName !== "TD") return;
    stand(next);
    next.focus();
  };
  for (const { table, cells } of tables.values()) {
    table.addEventListener("keydown", go);
    table.addEventListener("focusin", (event) => { const cell = event.target.closest("td"); if (cell) { stand(cell); tell(cell); } });
    table.addEventListener("click", (event) => { const cell = event.target.closest("tbody td"); if (cell) { stand(cell); cell.focus(); } });
    const first = cells.flat().find((cell) => cell.dataset.m);
    if (first) first.tabIndex = 0;
    if (!stop && first) stop = first;
  }
  get("rail").addEventListener("change", show);
  for (const name of ["order", "figures"]) get(name).addEventListener("change", (event) => { state[name] = event.target.value; show(); });
  get("words").addEventListener("input", (event) => { state.words = event.target.value; show(); });
  get("tools").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      get("words").focus();
    }
  });
  if (rails.length) {
    get("tools").hidden = false;
    show();
  }
})();
