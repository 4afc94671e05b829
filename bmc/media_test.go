package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	isoURI   = "http://10.0.0.1:8080/image/talos.iso"
	cdPath   = "/redfish/v1/Managers/1/VirtualMedia/CD"
	insertCD = "POST " + cdPath + "/Actions/VirtualMedia.InsertMedia"
	ejectCD  = "POST " + cdPath + "/Actions/VirtualMedia.EjectMedia"
	patchCD  = "PATCH " + cdPath
	shortCD  = "/Managers/1/VirtualMedia/CD"
)

// drive is a virtual CD drive's document.
func drive(image string, inserted, actions bool, more string) string {
	shown, _ := json.Marshal(image)
	if image == "" {
		shown = []byte("null")
	}
	a := ""
	if actions {
		a = fmt.Sprintf(`,"Actions":{"#VirtualMedia.InsertMedia":{"target":"%[1]s/Actions/VirtualMedia.InsertMedia"},"#VirtualMedia.EjectMedia":{"target":"%[1]s/Actions/VirtualMedia.EjectMedia"}}`, cdPath)
	}
	return fmt.Sprintf(`{"Id":"CD","MediaTypes":["CD","DVD"],"Image":%s,"Inserted":%t%s%s}`, shown, inserted, a, more)
}

// mediaScript is a machine whose manager has one CD drive.
func mediaScript(t *testing.T, maker, document string) *script {
	t.Helper()
	s := newScript(t, one(machineShowing(maker, strings.Replace(restingUEFI, `"Hdd"`, `"Hdd","Cd"`, 1), `,"Links":{"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"}]}`), map[string]string{
		"/redfish/v1/Managers/1":              `{"Id":"1","VirtualMedia":{"@odata.id":"/redfish/v1/Managers/1/VirtualMedia"}}`,
		"/redfish/v1/Managers/1/VirtualMedia": `{"Members":[{"@odata.id":"` + cdPath + `"}]}`,
		cdPath:                                document,
	}))
	return s
}

// puts answers 204 and shows this document at the drive.
func (s *script) puts(document string) func(string, http.Header) *reply {
	return func(string, http.Header) *reply {
		s.docs[cdPath] = document
		return &reply{status: 204}
	}
}

func insertISO(ctx context.Context, c *Client) error { return c.InsertMedia(ctx, isoURI) }

func TestMediumIsInsertedByTheActionAndEjected(t *testing.T) {
	t.Parallel()
	s := mediaScript(t, "Acme", drive("", false, true, ""))
	s.on[insertCD] = s.puts(drive(isoURI, true, true, ""))
	s.on[ejectCD] = s.puts(drive("", false, true, ""))
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		return errors.Join(c.InsertMedia(ctx, isoURI), c.InsertMedia(ctx, isoURI), c.EjectMedia(ctx), c.EjectMedia(ctx))
	})
	if err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"Image":"`+isoURI+`"}`, `{}`)
	find := []string{"GET /Managers/1", "GET /Managers/1/VirtualMedia", "GET " + shortCD}
	traffic := append([]string{}, find...)
	traffic = append(traffic, "POST "+shortCD+"/Actions/VirtualMedia.InsertMedia", "GET "+shortCD)
	traffic = append(append(traffic, "GET /Systems/1"), find...) // it is there already
	traffic = append(traffic, "GET "+shortCD, "POST "+shortCD+"/Actions/VirtualMedia.EjectMedia", "GET "+shortCD)
	traffic = append(append(traffic, "GET /Systems/1"), find...) // nothing is there
	wantTraffic(t, s, reaching(traffic...)...)
}

// Lenovo XCC has no action: the drive is written, EXT before others.
func TestLenovoMediumIsWritten(t *testing.T) {
	t.Parallel()
	const ext = "/redfish/v1/Managers/1/VirtualMedia/EXT1"
	s := mediaScript(t, "Lenovo", drive("", false, false, ""))
	s.docs["/redfish/v1/Managers/1/VirtualMedia"] = `{"Members":[{"@odata.id":"` + cdPath + `"},{"@odata.id":"` + ext + `"}]}`
	s.docs[ext] = drive("", false, false, "")
	s.etags[ext] = `"7"`
	s.on["PATCH "+ext] = func(body string, h http.Header) *reply {
		if h.Get("If-Match") == "" {
			return refuses(428, "Base.1.8.PreconditionRequired")
		}
		image, inserted := isoURI, true
		if strings.Contains(body, "null") {
			image, inserted = "", false
		}
		s.docs[ext] = drive(image, inserted, false, "")
		return &reply{status: 200}
	}
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		return errors.Join(c.InsertMedia(ctx, isoURI), c.EjectMedia(ctx))
	})
	if err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"Image":"`+isoURI+`","Inserted":true,"WriteProtected":true}`, `{"Image":null,"Inserted":false}`)
}

// The ways of BMCs that are particular about the action.
func TestMediumIsInsertedInAWayTheBMCTakes(t *testing.T) {
	t.Parallel()
	const full = `{"Image":"` + isoURI + `","Inserted":true,"TransferMethod":"Stream","TransferProtocolType":"HTTP","WriteProtected":true}`
	for _, tt := range []struct {
		name  string
		takes func(body string, h http.Header) *reply
		last  string
	}{
		{"all parameters demanded", func(body string, _ http.Header) *reply {
			if !strings.Contains(body, "TransferMethod") {
				return refuses(400, "Base.1.8.ActionParameterMissing", "TransferMethod")
			}
			return nil
		}, full},
		{"If-Match demanded", func(_ string, h http.Header) *reply {
			if h.Get("If-Match") != `"5"` {
				return refuses(428, "Base.1.8.PreconditionRequired")
			}
			return nil
		}, `{"Image":"` + isoURI + `"}`},
		{"busy for a while", func() func(string, http.Header) *reply {
			return first(2, reply{status: 503})
		}(), `{"Image":"` + isoURI + `"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := mediaScript(t, "Acme", drive("", false, true, ""))
			s.etags[cdPath] = `"5"`
			s.on[insertCD] = func(body string, h http.Header) *reply {
				if r := tt.takes(body, h); r != nil {
					return r
				}
				return s.puts(drive(isoURI, true, true, ""))(body, h)
			}
			if err := s.run(t, s.config(t), insertISO); err != nil {
				t.Error(err)
			}
			writes := s.written()
			if got := writes[len(writes)-1]; got != tt.last {
				t.Errorf("the last write is %s", got)
			}
		})
	}
}

func TestAnotherMediumIsReplaced(t *testing.T) {
	t.Parallel()
	s := mediaScript(t, "Acme", drive("http://other/old.iso", true, true, ""))
	s.on[ejectCD] = s.puts(drive("", false, true, ""))
	s.on[insertCD] = s.puts(drive(isoURI, true, true, ""))
	if err := s.run(t, s.config(t), insertISO); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{}`, `{"Image":"`+isoURI+`"}`)
}

// community.general#6969: an empty drive that still shows its image.
func TestEmptyDriveThatShowsAnImageIsEmpty(t *testing.T) {
	t.Parallel()
	s := mediaScript(t, "Supermicro", drive(isoURI, true, true, `,"ConnectedVia":"NotConnected"`))
	s.on[insertCD] = s.puts(drive(isoURI, true, true, `,"ConnectedVia":"URI"`))
	if err := s.run(t, s.config(t), insertISO); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"Image":"`+isoURI+`"}`)
}

// Said yes and shown nothing; refused; no drive; no licence.
func TestMediumThatDoesNotComeIsAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		document string
		answer   *reply
		kind     error
		says     string
	}{
		"accepted, not shown": {drive("", false, true, ""), &reply{status: 204}, ErrMediaRefused, "it said yes to"},
		"refused":             {drive("", false, true, ""), refuses(400, "Base.1.8.ActionNotSupported"), ErrMediaRefused, "reaches the image's host"},
		"no licence":          {drive("", false, true, ""), refuses(403, "SMC.1.0.OemLicenseNotPassed", "DCMS"), ErrLicence, "DCMS"},
		"a floppy only":       {`{"Id":"Floppy","MediaTypes":["Floppy","USBStick"]}`, nil, ErrNoMedia, "virtual media may need a licence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mediaScript(t, "Acme", tt.document)
			for _, request := range []string{insertCD, patchCD} {
				s.on[request] = func(string, http.Header) *reply { return tt.answer }
			}
			err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
				_, err := c.Arm(ctx, BootRequest{Kind: BootMedia, MediaURI: isoURI})
				return err
			})
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v", err)
			}
			if n := s.count(patchOne); n != 0 {
				t.Errorf("%d overrides without a medium", n)
			}
		})
	}
}

// A boot that cannot be armed leaves no medium behind.
func TestMediumIsTakenBackWhenTheOverrideIsRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []redfishtest.Profile{redfishtest.Generic(), redfishtest.Supermicro(), redfishtest.Lenovo()} {
		s := service(t, hardware(p))
		s.Inject(redfishtest.Fault{Method: http.MethodPatch, Path: "/redfish/v1/Systems/*", Action: redfishtest.IgnoreWrite()})
		_, err := dial(t, configFor(t, s)).Arm(t.Context(), BootRequest{Kind: BootMedia, MediaURI: isoURI})
		if !errors.Is(err, ErrOverrideNotKept) || strings.Contains(err.Error(), "stays inserted") {
			t.Errorf("%s: error is %v", p.Name, err)
		}
		if s.Media() != "" {
			t.Errorf("%s: %s is left in the drive", p.Name, s.Media())
		}
	}
}

// Huawei's iBMC has an action of its own, which is a task.
func TestHuaweiMediumByItsOwnAction(t *testing.T) {
	t.Parallel()
	const control = cdPath + "/Oem/Huawei/Actions/VirtualMedia.VmmControl"
	const oem = `,"Oem":{"Huawei":{"Actions":{"#VirtualMedia.VmmControl":{"target":"` + control + `"}}}}`
	s := mediaScript(t, "Huawei", drive("", false, false, oem))
	s.on["POST "+control] = func(body string, _ http.Header) *reply {
		image, inserted := isoURI, true
		if strings.Contains(body, "Disconnect") {
			image, inserted = "", false
		}
		s.docs[cdPath] = drive(image, inserted, false, oem)
		return &reply{status: 202, body: `{"@odata.type":"#Task.v1_0_2.Task","@odata.id":"/redfish/v1/TaskService/Tasks/1","TaskState":"Running"}`}
	}
	s.docs["/redfish/v1/TaskService/Tasks/1"] = `{"@odata.id":"/redfish/v1/TaskService/Tasks/1","TaskState":"Completed","TaskStatus":"OK"}`
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		return errors.Join(c.InsertMedia(ctx, isoURI), c.EjectMedia(ctx))
	})
	if err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"Image":"`+isoURI+`","VmmControlType":"Connect"}`, `{"VmmControlType":"Disconnect"}`)
	if n := s.count("GET /redfish/v1/TaskService/Tasks/1"); n != 2 {
		t.Errorf("%d looks at the task", n)
	}
}
