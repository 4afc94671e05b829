package bmc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory/identity"
)

// world is a BMC in memory whose documents have random types in random fields.
type world struct {
	mu     sync.Mutex
	docs   map[string]any
	count  int
	writes []string
}

// twoSystems are the documents of a BMC with two like machines: A, and B that is
// expected.
func twoSystems() map[string]string {
	docs := map[string]string{
		"/redfish/v1":          `{"Id":"RootService","Vendor":"Acme","Systems":{"@odata.id":"/redfish/v1/Systems"},"Chassis":{"@odata.id":"/redfish/v1/Chassis"},"Managers":{"@odata.id":"/redfish/v1/Managers"},"SessionService":{"@odata.id":"/redfish/v1/SessionService"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`,
		"/redfish/v1/Systems":  `{"Members":[{"@odata.id":"/redfish/v1/Systems/A"},{"@odata.id":"/redfish/v1/Systems/B"}],"Members@odata.nextLink":"/redfish/v1/Systems"}`,
		"/redfish/v1/Chassis":  `{"Members":[{"@odata.id":"/redfish/v1/Chassis/A"},{"@odata.id":"/redfish/v1/Chassis/B"}]}`,
		"/redfish/v1/Managers": `{"Members":[{"@odata.id":"/redfish/v1/Managers/A"},{"@odata.id":"/redfish/v1/Managers/B"}]}`,
	}
	for _, id := range []string{"A", "B"} {
		for path, document := range map[string]string{
			"/redfish/v1/Systems/#": `{"@odata.id":"/redfish/v1/Systems/#","@odata.etag":"\"1\"","Id":"#","Name":"System","SystemType":"Physical","Manufacturer":"Acme","Model":"M","SerialNumber":"SERIAL-#","SKU":"SKU-#","UUID":"0000000#-0000-4000-8000-000000000001","PowerState":"On",
				"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Cd"],"HttpBootUri":null},
				"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/#/Actions/ComputerSystem.Reset","@Redfish.ActionInfo":"/redfish/v1/Systems/#/ActionInfo"}},
				"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/#/EthernetInterfaces"},"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/#"}],"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/#"}]},
				"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/#/Settings"}},"Oem":{"Acme":{"X":1}}}`,
			"/redfish/v1/Systems/#/Settings":             `{"Id":"Settings","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI"}}`,
			"/redfish/v1/Systems/#/ActionInfo":           `{"Parameters":[{"Name":"ResetType","AllowableValues":["On","ForceOff","ForceRestart"]}]}`,
			"/redfish/v1/Systems/#/EthernetInterfaces":   `{"Members":[{"@odata.id":"/redfish/v1/Systems/#/EthernetInterfaces/1"}]}`,
			"/redfish/v1/Systems/#/EthernetInterfaces/1": `{"MACAddress":"02:00:00:00:00:0#","PermanentMACAddress":"02:00:00:00:00:0#"}`,
			"/redfish/v1/Chassis/#":                      `{"Id":"#","ChassisType":"RackMount","SerialNumber":"CHASSIS-#","Assembly":{"@odata.id":"/redfish/v1/Chassis/#/Assembly"},"NetworkAdapters":{"@odata.id":"/redfish/v1/Chassis/#/NetworkAdapters"},"Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/#"}]}}`,
			"/redfish/v1/Chassis/#/Assembly":             `{"Assemblies":[{"Name":"System Board","Model":"X","SerialNumber":"BOARD-#"}]}`,
			"/redfish/v1/Managers/#":                     `{"Id":"#","VirtualMedia":{"@odata.id":"/redfish/v1/Managers/#/VirtualMedia"},"Links":{"ManagerForServers":[{"@odata.id":"/redfish/v1/Systems/#"}]}}`,
			"/redfish/v1/Managers/#/VirtualMedia":        `{"Members":[{"@odata.id":"/redfish/v1/Managers/#/VirtualMedia/CD"}]}`,
			"/redfish/v1/Managers/#/VirtualMedia/CD":     `{"Id":"CD","MediaTypes":["CD"],"Image":null,"Inserted":false,"ConnectedVia":"NotConnected","Actions":{"#VirtualMedia.InsertMedia":{"target":"/redfish/v1/Managers/#/VirtualMedia/CD/Actions/VirtualMedia.InsertMedia"}}}`,
		} {
			docs[strings.ReplaceAll(path, "#", id)] = strings.NewReplacer("/#", "/"+id, `"#"`, `"`+id+`"`, "-#", "-"+id, "0#", "0"+id).Replace(document)
		}
	}
	return docs
}

// scrambled replaces fields by values of other types, each with the odds given.
func scrambled(t *testing.T, random *rand.Rand, odds float64) *world {
	t.Helper()
	sources := twoSystems()
	paths := slices.Sorted(maps.Keys(sources))
	// A system that names another's manager as its own cannot be found out.
	links := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == "/redfish/v1/Managers/A" })
	w := &world{docs: map[string]any{}}
	for _, p := range paths {
		var v any
		if err := json.Unmarshal([]byte(sources[p]), &v); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		w.docs[p] = scramble(v, random, odds, links)
	}
	return w
}

func scramble(v any, random *rand.Rand, odds float64, paths []string) any {
	if random.Float64() < odds {
		link := paths[random.IntN(len(paths))]
		return []any{
			nil, true, 7, -1.5, "", "x", "null", []any{}, map[string]any{}, []any{nil, 7, "x"}, []any{[]any{[]any{}}},
			map[string]any{"@odata.id": 7}, map[string]any{"@odata.id": map[string]any{}}, map[string]any{"@odata.id": link}, link,
			[]any{map[string]any{"@odata.id": link}}, map[string]any{"error": "x"}, strings.Repeat("long ", 2000), "http://other.invalid" + link, "\x00", 1e300,
		}[random.IntN(21)]
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out[name] = scramble(v[name], random, odds, paths)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, member := range v {
			out = append(out, scramble(member, random, odds, paths))
		}
		return out
	}
	return v
}

// RoundTrip implements http.RoundTripper: the BMC, without a network.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	path := strings.TrimRight(r.URL.Path, "/")
	answer := func(status int, v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
	}
	switch {
	case strings.HasSuffix(path, "/Sessions"):
		resp, err := answer(http.StatusCreated, map[string]any{})
		resp.Header.Set("X-Auth-Token", "token")
		return resp, err
	case r.Method == http.MethodGet && w.docs[path] != nil:
		return answer(http.StatusOK, w.docs[path])
	case r.Method == http.MethodGet:
		return answer(http.StatusNotFound, nil)
	case r.Method == http.MethodDelete:
		return answer(http.StatusNoContent, nil)
	}
	w.writes = append(w.writes, path)
	w.keep(path, r)
	return answer(http.StatusOK, map[string]any{})
}

// keep does what a write says, where the document is sound enough for it.
func (w *world) keep(path string, r *http.Request) {
	var sent map[string]any
	if json.NewDecoder(r.Body).Decode(&sent) != nil {
		return
	}
	target, action := path, ""
	if i := strings.Index(path, "/Actions/"); i > 0 {
		target, action = path[:i], path[i:]
	}
	doc, ok := w.docs[target].(map[string]any)
	if !ok {
		return
	}
	switch {
	case sent["ResetType"] == "ForceOff":
		doc["PowerState"] = "Off"
	case sent["ResetType"] != nil:
		doc["PowerState"] = "On"
	case strings.HasSuffix(action, "InsertMedia"):
		doc["Image"], doc["Inserted"], doc["ConnectedVia"] = sent["Image"], true, "URI"
	default:
		maps.Copy(doc, sent)
	}
}

// FuzzTypes runs through a BMC with random types in random fields. Nothing
// panics, nothing loops, and no machine but the expected one is written to by a
// caller that compares identities as it should (I1).
func FuzzTypes(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint8(seed%24))
	}
	f.Fuzz(func(t *testing.T, seed uint64, odds uint8) {
		w := scrambled(t, rand.New(rand.NewPCG(seed, 1)), float64(odds%64)/200)
		expected := identity.Facts{Serial: "SERIAL-B"}
		c, err := newClient(t.Context(), Config{
			Address: "https://bmc.invalid", Username: testUser, Password: testPassword, Expected: expected,
			Timeouts: Timeouts{Poll: time.Microsecond, Operation: 20 * time.Second, Power: 50 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport.(*guard).next = w
		scrambledRun(t.Context(), c, expected)
		if err := c.Close(t.Context()); err != nil && w.count < 2 {
			t.Errorf("close: %v", err)
		}
		if w.count > 20000 {
			t.Errorf("%d requests", w.count)
		}
		for _, path := range w.writes {
			if !strings.HasPrefix(path, "/redfish/v1/Systems/B") && !strings.HasPrefix(path, "/redfish/v1/Managers/B") {
				t.Errorf("wrote to %s", path)
			}
		}
	})
}

// scrambledRun goes as far as the documents allow.
func scrambledRun(ctx context.Context, c *Client, expected identity.Facts) {
	if c.connect(ctx) != nil {
		return
	}
	id, err := c.Identify(ctx)
	if err != nil {
		return
	}
	if _, agrees, _ := identity.Compare([]identity.Facts{expected}, id.Facts); !agrees {
		return
	}
	for _, kind := range []BootKind{BootPXE, BootHTTP, BootMedia} {
		_, _ = c.Arm(ctx, BootRequest{Kind: kind, HTTPBootURI: bootURI, MediaURI: isoURI})
	}
	_ = c.PowerCycle(ctx)
	_ = c.Disarm(ctx)
}
