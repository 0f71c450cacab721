"""What a plan makes one buy: whole units, spares, switches, and what they draw."""

import numpy as np
import pytest
from small_bill import (
    BARE,
    column,
    fabric,
    racks,
    servers,
)

from costdata.hardware_bill import (
    Support,
    UnitShapes,
    Watts,
    Working,
    hardware_bill,
    it_w,
    provisioned_w,
)


class TestHardwareBill:
    def test_devices_come_in_whole_units_and_the_rest_is_stranded(self):
        """1,000 devices in racks of 72 would be 13.9 racks."""
        plan = hardware_bill(column(1000), racks(), fabric(), BARE)
        assert plan.purchase_units[0] == 14
        assert plan.stranded_devices[0] == 8

    def test_working_stranded_and_spare_devices_are_all_that_is_bought(self):
        """A device would be paid twice or by nobody."""
        support = Support(0.0, 0.0, 50_677.0, 240.0)
        plan = hardware_bill(np.array([1000.0, 5000, 20000]), racks(3), fabric(3), support)
        bought = (plan.purchase_units + plan.spare_units) * 72
        together = plan.devices_working + plan.stranded_devices + plan.spare_devices
        np.testing.assert_array_equal(bought, together)
        assert (plan.spare_units > 0).all()

    def test_stranded_hosts_stand_in_for_spares(self):
        """A rack would be bought as a spare while enough of another stands idle."""
        support = Support(0.0, 0.0, 50_677.0, 24.0)
        one_down = hardware_bill(column(1000), racks(), fabric(), support)
        assert one_down.stranded_devices[0] == 8
        assert one_down.spare_units[0] == 0
        full = hardware_bill(column(1008), racks(), fabric(), support)
        assert full.spare_units[0] == 1

    def test_no_repair_time_buys_no_spares(self):
        """Spares would be bought for hardware that is never away."""
        plan = hardware_bill(column(16384), servers(), fabric(), Support(0, 0, 50_677.0, 0.0))
        assert plan.spare_units[0] == 0

    def test_spares_of_the_llama_3_cluster(self):
        """16,384 GPUs with one failure in 50,677 h and a day of repair: 8 servers."""
        plan = hardware_bill(column(16384), servers(), fabric(), Support(0, 0, 50_677.0, 24.0))
        assert plan.spare_units[0] == 8

    def test_the_network_wires_every_host_spares_included(self):
        """A spare would stand by unplugged."""
        plan = hardware_bill(column(1024), servers(), fabric(), BARE)
        assert (plan.switches[0], plan.ports[0], plan.links[0]) == (48, 1024, 2048)
        spared = hardware_bill(column(1024), servers(), fabric(), Support(0, 0, 50_677.0, 24.0))
        assert spared.ports[0] == 1032

    def test_too_many_hosts_for_three_layers_show_as_a_fourth(self):
        """A caller could not tell a fabric that cannot be wired from one that can."""
        plan = hardware_bill(column(1_048_576), servers(), fabric(), BARE)
        assert (plan.tiers[0], np.isfinite(plan.switches[0])) == (4, True)

    def test_watts_follow_what_each_device_does(self):
        """Stranded devices would draw nothing, or as much as working ones."""
        plan = hardware_bill(column(1000), racks(), fabric(), Support(0.01, 0.04, np.inf, 0.0))
        each = Watts(*(column(x) for x in (100, 1, 25, 900, 24, 650, 500, 0, 0, 0)))
        mean = it_w(plan, each, Working(700.0, 180.0, 120.0))
        assert mean.terms["devices"][0] == 700_000
        assert mean.terms["hosts"][0] + mean.terms["fans"][0] == 300_000
        assert mean.terms["network_cards"][0] == 25 * plan.ports[0]
        assert mean.terms["stranded"][0] == 800
        assert mean.terms["storage"][0] == 6500
        assert mean.terms["head_nodes"][0] == 11 * 500
        peak = it_w(plan, each, Working(900.0, 180.0, 120.0))
        assert peak.total[0] - mean.total[0] == pytest.approx(200_000)
        assert provisioned_w(peak.total, 0.1)[0] == pytest.approx(1.1 * peak.total[0])


def test_a_rack_whose_groups_work_64_of_72_is_bought_by_its_64():
    """512 devices in groups of 64 take 8 racks and strand 64 devices; 7.1 racks do not exist."""
    shapes = UnitShapes(column(72, 1), column(18, 1), column(4, 1), column(64, 1))
    bought = hardware_bill(column(4096, 1), shapes, fabric(1), BARE)
    assert bought.purchase_units.tolist() == [64]
    assert bought.stranded_devices.tolist() == [64 * 8]


def test_a_domain_that_works_as_a_whole_stands_by_as_a_whole():
    """7,200 devices with four hosts under repair: one rack of trays, or four racks of 18 hosts."""
    support = Support(0.0, 0.0, 50_677.0, 24.0)
    plans = [
        hardware_bill(column(7200), racks(), fabric(), support, out) for out in (0.0, 1.0, 18.0)
    ]
    assert [plan.spare_units[0] for plan in plans] == [0, 1, 4]
