package redfishtest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func TestWarmResetUsesUpAnOverrideThatCountsOnce(t *testing.T) {
	t.Parallel()
	once := redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}
	always := redfishtest.Override{Target: "Pxe", Enabled: "Continuous", Mode: "UEFI"}
	tests := []struct {
		name    string
		profile redfishtest.Profile
		before  redfishtest.Override
		boot    redfishtest.Boot
		after   redfishtest.Override
	}{
		{"none", redfishtest.Generic(), atRest, redfishtest.Boot{Mode: "UEFI"}, atRest},
		{"once", redfishtest.Generic(), once, redfishtest.Boot{Target: "Pxe", Mode: "UEFI"}, atRest},
		{"continuous", redfishtest.Generic(), always, redfishtest.Boot{Target: "Pxe", Mode: "UEFI"}, always},
		{"a vendor that takes it at a cold start only", redfishtest.AMI(), once, redfishtest.Boot{Mode: "UEFI"}, once},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.New(redfishtest.Config{Profile: tt.profile, InitialPower: true})
			t.Cleanup(s.Close)
			s.SetOverride(tt.before)
			if diff := cmp.Diff(tt.boot, s.WarmReset()); diff != "" {
				t.Errorf("boot (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.after, s.Override()); diff != "" {
				t.Errorf("override (-want +got):\n%s", diff)
			}
			if s.PowerState() != "On" || s.PowerOns() != 0 || len(s.Resets()) != 0 {
				t.Errorf("the BMC counts it as its own: %s, %d, %v", s.PowerState(), s.PowerOns(), s.Resets())
			}
		})
	}
}
