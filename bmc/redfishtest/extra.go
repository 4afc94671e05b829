package redfishtest

import "net/http"

// HGXBaseboard is the second System of NVIDIA HGX machines, listed first. It
// answers 503 as it does while the host is off (infra-controller#5418).
func HGXBaseboard() Extra {
	return Extra{
		Path: "/redfish/v1/Systems/HGX_Baseboard_0", First: true,
		Refusal: fail(http.StatusServiceUnavailable, "Ami.1.0.HMCCommuicationFailed", "Communication with the HMC failed."),
	}
}

// Hypervisor is the second System of IBM OpenBMC machines: it can be reset, but
// has no Boot.
func Hypervisor() Extra {
	const path = "/redfish/v1/Systems/hypervisor"
	return Extra{
		Path: path, First: true,
		Document: Document{
			"@odata.id": path, "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
			"Id": "hypervisor", "Name": "Hypervisor", "SystemType": "OS", "PowerState": "Off",
			"Actions": Document{"#ComputerSystem.Reset": Document{"target": path + "/Actions/ComputerSystem.Reset"}},
		},
	}
}

func (s *Service) extras() []Extra {
	all := append(append([]Extra(nil), s.profile.Extra...), s.config.Extra...)
	if s.profile.ExtraFor != nil {
		all = append(all, s.profile.ExtraFor(s.hardware())...)
	}
	return all
}

func (s *Service) extra(path string) (Extra, bool) {
	for _, e := range s.extras() {
		if e.Path == path {
			return e, true
		}
	}
	return Extra{}, false
}

func (e Extra) answer() Answer {
	if e.Refusal.given() {
		return e.Refusal
	}
	return found(e.Document)
}
