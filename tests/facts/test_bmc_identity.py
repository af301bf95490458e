"""Whether a BMC is the one of this node."""

from __future__ import annotations

import pytest

from toolkit.facts.firmware.redfish_bmc import BmcMachine, Same, same_machine

UUID = "4c4c4544-0042-3510-8058-b4c04f4d3333"
TURNED = "44454c4c-4200-1035-8058-b4c04f4d3333"
OTHER = "4c4c4544-0042-3510-8058-b4c04f4d4444"


@pytest.mark.parametrize(
    ("serial", "uuid", "machine", "same"),
    [
        pytest.param("", UUID, BmcMachine(uuid=UUID), Same.YES, id="uuid"),
        pytest.param(
            "", UUID, BmcMachine(uuid=TURNED), Same.YES, id="uuid-in-the-other-byte-order"
        ),
        pytest.param("", UUID, BmcMachine(uuid=OTHER), Same.NO, id="another-uuid"),
        pytest.param("B5XH3S3", "", BmcMachine(serial="b5xh3s3"), Same.YES, id="serial"),
        pytest.param("B5XH3S3", "", BmcMachine(serial="CNX1", sku="B5XH3S3"), Same.YES, id="tag"),
        pytest.param("B5XH3S3", "", BmcMachine(serial="C6YI4T4"), Same.NO, id="another-serial"),
        pytest.param(
            "B5XH3S3", UUID, BmcMachine(serial="B5XH3S3", uuid=OTHER), Same.YES, id="board-swap"
        ),
        pytest.param(
            "To be filled by O.E.M.", "", BmcMachine(serial="X1"), Same.UNTOLD, id="unfilled"
        ),
        pytest.param(
            "X1", "", BmcMachine(serial="Default string"), Same.UNTOLD, id="unfilled-there"
        ),
        pytest.param(
            "", "0" * 8 + UUID[8:], BmcMachine(uuid="nonsense"), Same.UNTOLD, id="no-uuid"
        ),
        pytest.param(
            "0123456789",
            "03000200-0400-0500-0006-000700080009",
            BmcMachine(uuid=UUID, serial="X1"),
            Same.UNTOLD,
            id="what-many-boards-have",
        ),
        pytest.param(
            "",
            "00020003-0004-0005-0006-000700080009",
            BmcMachine(uuid="00020003-0004-0005-0006-000700080009"),
            Same.UNTOLD,
            id="what-many-boards-have-in-the-other-byte-order",
        ),
        pytest.param("CZ2D1X0A", "", BmcMachine(sku="P38471-B21"), Same.UNTOLD, id="order-number"),
        pytest.param("", "", BmcMachine(), Same.UNTOLD, id="nothing-told"),
    ],
)
def test_serial_and_uuid_say_whose_bmc_it_is(
    serial: str, uuid: str, machine: BmcMachine, same: Same
) -> None:
    dmi = {"product_serial": serial, "product_uuid": uuid}
    assert same_machine(dmi, machine)[0] is same


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        pytest.param("PowerEdge R750", "PowerEdge R750", Same.UNTOLD, id="alike-is-no-proof"),
        pytest.param("ProLiant DL385", "HPE ProLiant DL385", Same.UNTOLD, id="maker-before-it"),
        pytest.param("PowerEdge R750", "PowerEdge XE9680", Same.NO, id="another"),
        pytest.param("", "PowerEdge R750", Same.UNTOLD, id="not-told"),
    ],
)
def test_a_model_can_only_speak_against_it(ours: str, theirs: str, same: Same) -> None:
    found, why = same_machine({"product_name": ours}, BmcMachine(model=theirs))
    assert found is same
    assert why


def test_a_known_number_goes_before_the_model() -> None:
    dmi = {"product_serial": "J1", "product_name": "7D22CTO1WW"}
    assert same_machine(dmi, BmcMachine(serial="J1", model="ThinkSystem SR670 V2"))[0] is Same.YES
