package redfishtest

import "net/http"

// DellIDRAC10 is an iDRAC 10: the System shows Boot, and only the settings
// resource takes it; an action with If-Match is answered 412, and clients that
// accept gzip get an entity tag that is refused afterwards (gofish#511). It
// refuses On for [Config].Settling after a power-off (ironic bug 2162995).
// Virtual media is found from the System.
func DellIDRAC10() Profile {
	p := Dell()
	p.Name, p.RedfishVersion = "dell-idrac10", "1.20.0"
	p.Boot.JobOnMode = false
	p.Boot.Settings = Settings{
		ID: "Settings", Annotated: true, Keys: []string{keyTarget, keyEnabled, keyMode, keyURI},
		Refusal: fail(http.StatusBadRequest, "Base.1.18.PropertyNotWritable",
			"The property Boot is read-only, use the settings resource.", "Boot"),
	}
	p.ETag = ETagRules{GzipSuffix: true, RefuseOnActions: true}
	p.Reset.Settling = p.Reset.Busy
	p.Media = MediaRules{
		On:    []Resource{ResourceSystem},
		Slots: []Slot{{ID: "1", Types: []string{"CD", "DVD", "USBStick"}}, {ID: "2", Types: []string{"CD", "DVD", "USBStick"}}},
	}
	return p
}
