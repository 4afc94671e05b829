package bmc

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextTakesAnyScalar(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]text{
		`"A1"`: "A1", `" A1\u0000 "`: "A1", `123`: "123", `1e5`: "1e5", `true`: "true",
		`null`: "", `{}`: "", `["A1"]`: "", `""`: "",
	} {
		var got text
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", in, got, err, want)
		}
	}
}

func TestLinkTakesAnyReference(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]link{
		`{"@odata.id":"/redfish/v1/Systems/1"}`:             "/redfish/v1/Systems/1",
		`{"href":"/rest/v1/Systems/1"}`:                     "/rest/v1/Systems/1",
		`"/redfish/v1/Systems/1/"`:                          "/redfish/v1/Systems/1/",
		`[{"@odata.id":"/a"},{"@odata.id":"/b"}]`:           "/a",
		`{"@odata.id":"https://10.0.0.1/redfish/v1/X?a=b"}`: "/redfish/v1/X?a=b",
		`{"@odata.id":"redfish/v1/Systems/a b"}`:            "/redfish/v1/Systems/a%20b",
		`{"@odata.id":"//evil.example/redfish"}`:            "/redfish",
		`{"@odata.id":"/redfish/v1/Chassis/1#/Assembly"}`:   "/redfish/v1/Chassis/1",
		`{"@odata.id":7}`:                                   "/7",
		`{"@odata.id":"%zz"}`:                               "",
		`"#/Assembly"`:                                      "",
		`null`:                                              "", `{}`: "", `[]`: "", `7`: "", `"https://10.0.0.1"`: "",
	} {
		var got link
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", in, got, err, want)
		}
	}
}

func TestDecodeRepairs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\xef\xbb\xbf{\"Id\":\"1\"}":       "1",
		`{"Id":"1","Boot":{"a":[1,2,],},}`: "1",
		"{\"Id\":\"1\x00\n\"}":             "1",
		`{"Id":"a,]\",}"}`:                 `a,]",}`,
		`{"Id":"1",` + "\n\t}":             "1",
	} {
		var got struct{ Id text } //nolint:revive // the name of the property
		if err := decode([]byte(in), &got); err != nil || string(got.Id) != want {
			t.Errorf("%q is %q (%v), want %q", in, got.Id, err, want)
		}
	}
	for _, in := range []string{"", "  ", "\xef\xbb\xbf", "<html>", `{"Id":"1"`, "[1]"} {
		var got struct{ Id text } //nolint:revive // the name of the property
		if err := decode([]byte(in), &got); err == nil {
			t.Errorf("%q is no document, and passed", in)
		}
	}
}

func TestListTakesALoneMember(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]list[text]{
		`["a","b",null,{"c":1}]`: {"a", "b", ""}, `"a"`: {"a"}, `null`: nil, `[]`: nil,
	} {
		var got list[text]
		if err := json.Unmarshal([]byte(in), &got); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s is %q (%v), want %q", in, got, err, want)
		}
	}
}

// Whatever a BMC sends: no panic, links that stay on the BMC, and a boot
// override that counts as armed only when it says so in plain strings.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{
		supermicro1, supermicroChassis1, plainRoot, systemsOne, rac0218,
		machineShowing("Dell Inc.", restingUEFI, `,"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/Pending"}}`),
		`{"Id":1,"SerialNumber":{"a":1},"Boot":[],"Links":"x","Actions":{"#ComputerSystem.Reset":[]},"Oem":7,}`,
		`{"Members":{"@odata.id":"https://h/x"},"Members@odata.nextLink":["/a"]}`,
		`{"error":{"code":7,"message":[],"@Message.ExtendedInfo":{"MessageId":"Base.1.0.X","MessageArgs":"a"}}}`,
		"\xef\xbb\xbf{\"Boot\":{\"BootSourceOverrideTarget\":\"Pxe\",\"BootSourceOverrideEnabled\":\"Once\"}}",
	} {
		f.Add([]byte(seed))
	}
	client := &Client{}
	f.Fuzz(func(t *testing.T, body []byte) {
		var (
			root rootDocument
			page collectionDocument
			sys  systemDocument
			box  chassisDocument
			info actionInfoDocument
			asm  assemblyDocument
		)
		for _, into := range []any{&root, &page, &info, &asm, &box} {
			_ = decode(body, into)
		}
		if decode(body, &sys.raw) == nil && json.Unmarshal(sys.raw, &sys) == nil {
			chassis := []*chassisDocument{{path: "/c", raw: sys.raw, Oem: sys.Oem}}
			v := detect(&root, &sys, chassis)
			for _, sources := range [][]source{v.serial, v.board, v.chassis} {
				find(sources, &sys, chassis)
			}
			now := sys.Boot.value.override()
			if now.Armed() && (now.Enabled == "" || now.Target == "") {
				t.Errorf("armed by %+v", now)
			}
			for _, kind := range []BootKind{BootPXE, BootHTTP, BootMedia, BootDisk} {
				want, err := aimOf(BootRequest{Kind: kind, HTTPBootURI: "http://h/x", MediaURI: "http://h/x.iso"}, "UEFI")
				if err != nil {
					t.Fatal(err)
				}
				if n := len(armBodies(v, sys.Boot.value, want, false)); n < 2 || n > maxWrites {
					t.Errorf("%d bodies", n)
				}
			}
			clearBodies(v, sys.Boot.value, "UEFI", true)
			_ = sys.summary()
		}
		asm.boardOf()
		for _, l := range append(page.Members, page.NextLink, root.Systems, sys.Interfaces, sys.Actions.value.Reset.value.Target) {
			if l != "" && (l[0] != '/' || len(l) > 1 && l[1] == '/') {
				t.Errorf("link %q leaves the BMC", l)
			}
		}
		r := client.refuse(request{method: "GET", path: "/"}, answer{status: 400, body: body})
		if len(r.Error()) > 600 {
			t.Errorf("an error of %d bytes", len(r.Error()))
		}
		r.says("PropertyUnknown")
		r.mentions("mode")
	})
}
