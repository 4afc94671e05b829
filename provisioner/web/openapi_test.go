package web_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// schema is what we use of JSON schema.
type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Description          string            `json:"description"`
	Enum                 []string          `json:"enum"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	OneOf                []schema          `json:"oneOf"`
	AdditionalProperties any               `json:"additionalProperties"`
	Minimum              *int              `json:"minimum"`
}

type content map[string]struct {
	Schema schema `json:"schema"`
}

type response struct {
	Ref         string  `json:"$ref"`
	Description string  `json:"description"`
	Content     content `json:"content"`
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string `json:"summary"`
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	} `json:"parameters"`
	RequestBody *struct {
		Required bool    `json:"required"`
		Content  content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]response    `json:"responses"`
	Security  *[]map[string][]string `json:"security"`
}

type document struct {
	OpenAPI    string                          `json:"openapi"`
	Info       map[string]string               `json:"info"`
	Security   []map[string][]string           `json:"security"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		SecuritySchemes map[string]map[string]string `json:"securitySchemes"`
		Responses       map[string]response          `json:"responses"`
		Schemas         map[string]schema            `json:"schemas"`
	} `json:"components"`
}

// served is the document as a daemon gives it. What the types above do not have
// is no part of it: nothing in it goes unchecked.
func served(t *testing.T) document {
	t.Helper()
	r := serve(t, newFake(), web.Options{Socket: socket(t)})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+web.Prefix+"/openapi.json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	status, body := raw(t, r, request)
	var d document
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil || status != http.StatusOK {
		t.Fatalf("the document: %d, %v", status, err)
	}
	if d.OpenAPI != "3.1.0" || d.Info["title"] == "" || d.Info["version"] == "" {
		t.Errorf("the document begins with %q, %v", d.OpenAPI, d.Info)
	}
	return d
}

// bodies are the Go types of what goes over the wire: of the request and of the answer, where there are any.
var bodies = map[string]struct{ request, answer any }{
	"GET /healthz":                                {nil, web.Health{}},
	"GET /readyz":                                 {nil, web.Health{}},
	"GET /api/v1/openapi.json":                    {nil, nil},
	"GET /api/v1/nodes":                           {nil, []store.Node{}},
	"GET /api/v1/nodes/{cluster}/{node}":          {nil, web.NodeDetail{}},
	"GET /api/v1/inventory/nodes":                 {nil, []web.InventoryNode{}},
	"GET /api/v1/collisions":                      {nil, []web.Collision{}},
	"GET /api/v1/upgrades":                        {nil, []web.UpgradeInfo{}},
	"POST /api/v1/upgrades/plans":                 {web.UpgradeRequest{}, web.UpgradePlanAnswer{}},
	"POST /api/v1/upgrades":                       {web.UpgradeRequest{}, web.UpgradeInfo{}},
	"POST /api/v1/upgrades/{cluster}/stop":        {nil, nil},
	"POST /api/v1/upgrades/{cluster}/abandon":     {nil, web.UpgradeInfo{}},
	"GET /api/v1/unknown":                         {nil, []store.Unknown{}},
	"GET /api/v1/runs":                            {nil, []web.RunInfo{}},
	"GET /api/v1/runs/{id}":                       {nil, web.RunInfo{}},
	"GET /api/v1/holds":                           {nil, []store.Hold{}},
	"GET /api/v1/inventory":                       {nil, web.InventoryInfo{}},
	"GET /api/v1/events":                          {nil, web.Event{}},
	"GET /api/v1/backup":                          {nil, nil},
	"POST /api/v1/plans":                          {web.RunRequest{}, web.PlanAnswer{}},
	"POST /api/v1/runs":                           {web.RunRequest{}, web.RunInfo{}},
	"POST /api/v1/logins":                         {web.LoginRequest{}, web.LoginLink{}},
	"POST /api/v1/reload":                         {nil, nil},
	"POST /api/v1/runs/{cluster}/stop":            {nil, nil},
	"POST /api/v1/nodes/{cluster}/{node}/hold":    {web.HoldRequest{}, store.Hold{}},
	"POST /api/v1/nodes/{cluster}/{node}/release": {nil, nil},
}

func TestTheDocumentHasTheRoutesAndNoOthers(t *testing.T) {
	t.Parallel()
	d := served(t)
	documented := map[string]bool{}
	ids := map[string]bool{}
	for path, operations := range d.Paths {
		for method, o := range operations {
			documented[strings.ToUpper(method)+" "+path] = true
			if o.OperationID == "" || o.Summary == "" || ids[o.OperationID] {
				t.Errorf("%s %s: the operation %q has no summary, or its id is not its own", method, path, o.OperationID)
			}
			ids[o.OperationID] = true
		}
	}
	for _, r := range web.Routes() {
		name := r.Method + " " + r.Path
		if !documented[name] {
			t.Errorf("%s is not in openapi.json", name)
			continue
		}
		delete(documented, name)
		o := d.Paths[r.Path][strings.ToLower(r.Method)]
		if open := o.Security != nil && len(*o.Security) == 0; open != r.Open {
			t.Errorf("%s: openapi.json says that it is open to all: %t; it is %t", name, open, r.Open)
		}
		if o.Responses["default"].Ref != "#/components/responses/Error" {
			t.Errorf("%s: openapi.json says nothing of its errors", name)
		}
		var inPath []string
		for _, p := range o.Parameters {
			if p.In == "path" && p.Required {
				inPath = append(inPath, "{"+p.Name+"}")
			}
			if p.Description == "" || p.Schema.Type == "" {
				t.Errorf("%s: openapi.json does not describe the parameter %s", name, p.Name)
			}
		}
		var want []string
		for part := range strings.SplitSeq(r.Path, "/") {
			if strings.HasPrefix(part, "{") {
				want = append(want, part)
			}
		}
		if !slices.Equal(inPath, want) {
			t.Errorf("%s: openapi.json has the parameters %v in its path", name, inPath)
		}
		checkBodies(t, d, name, r, o)
	}
	for name := range documented {
		t.Errorf("%s is in openapi.json and is no route", name)
	}
}

// checkBodies compares what an operation takes and gives with its Go types.
func checkBodies(t *testing.T, d document, name string, r web.RouteInfo, o operation) {
	t.Helper()
	types, known := bodies[name]
	if !known {
		t.Errorf("%s: this test knows no types of it", name)
		return
	}
	switch {
	case (types.request != nil) != (o.RequestBody != nil):
		t.Errorf("%s: openapi.json says that it takes a body: %t", name, o.RequestBody != nil)
	case types.request != nil:
		newChecker(t, d).check(name+" takes", o.RequestBody.Content["application/json"].Schema, reflect.TypeOf(types.request))
	}
	status := r.Status
	if status == 0 {
		status = http.StatusOK
		if r.Method == http.MethodPost && types.answer == nil {
			status = http.StatusNoContent
		}
	}
	answer, ok := o.Responses[strconv.Itoa(status)]
	if !ok || answer.Description == "" {
		t.Errorf("%s: openapi.json does not describe the status %d", name, status)
	}
	if types.answer == nil {
		return
	}
	c := answer.Content["application/json"].Schema
	if lines, ok := answer.Content["application/x-ndjson"]; ok && len(lines.Schema.OneOf) == 2 {
		c = lines.Schema.OneOf[0]
		newChecker(t, d).check(name+" ends with", lines.Schema.OneOf[1], reflect.TypeFor[web.StreamEnd]())
	}
	newChecker(t, d).check(name+" gives", c, reflect.TypeOf(types.answer))
}

// checker compares schemas with Go types, each type once.
type checker struct {
	t    *testing.T
	d    document
	seen map[reflect.Type]bool
}

func newChecker(t *testing.T, d document) *checker { return &checker{t, d, map[reflect.Type]bool{}} }

func (c *checker) check(at string, s schema, of reflect.Type) {
	c.t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() {
		name := []rune(of.Name())
		name[0] = unicode.ToUpper(name[0])
		if want := "#/components/schemas/" + string(name); s.Ref != want {
			c.t.Errorf("%s: openapi.json has %q where Go has %s; want %s", at, s.Ref, of, want)
			return
		}
		if !c.seen[of] {
			c.seen[of] = true
			c.object(of.String(), c.d.Components.Schemas[string(name)], of)
		}
		return
	}
	want, format := jsonType(of)
	if s.Type != want || s.Format != format || s.Ref != "" {
		c.t.Errorf("%s: openapi.json has %+v where Go has %s; want the type %q %s", at, s, of, want, format)
		return
	}
	switch {
	case want == "array" && s.Items != nil:
		c.check(at+"[]", *s.Items, of.Elem())
	case want == "array":
		c.t.Errorf("%s: openapi.json does not say of what", at)
	}
}

// object compares the fields, both ways, and which of them are always there.
func (c *checker) object(at string, s schema, of reflect.Type) {
	c.t.Helper()
	var names, required []string
	for _, f := range reflect.VisibleFields(of) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || tag == "-" {
			continue
		}
		if tag == "" {
			c.t.Errorf("%s.%s has no name in JSON", at, f.Name)
			continue
		}
		names = append(names, tag)
		if options == "" {
			required = append(required, tag)
		}
		if property, ok := s.Properties[tag]; ok {
			c.check(at+"."+tag, property, f.Type)
		} else {
			c.t.Errorf("%s: the field %q is not in openapi.json", at, tag)
		}
	}
	for name := range s.Properties {
		if !slices.Contains(names, name) {
			c.t.Errorf("%s: openapi.json has the field %q and Go has not", at, name)
		}
	}
	slices.Sort(required)
	slices.Sort(s.Required)
	if diff := cmp.Diff(required, s.Required); diff != "" {
		c.t.Errorf("%s: the fields that are always there differ (-Go +openapi.json):\n%s", at, diff)
	}
}

// jsonType is how encoding/json writes a type.
func jsonType(of reflect.Type) (name, format string) {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "string", "date-time"
	case of.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()):
		return "string", ""
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Map: "object",
		reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer",
	}
	return kinds[of.Kind()], ""
}

func TestTheDocumentHasTheErrorsAndNothingThatIsNotUsed(t *testing.T) {
	t.Parallel()
	d := served(t)
	shape := d.Components.Responses["Error"].Content["application/json"].Schema
	newChecker(t, d).check("an error", shape, reflect.TypeFor[web.Error]())
	codes := web.Codes()
	want := make([]string, 0, len(codes))
	for _, code := range codes {
		want = append(want, string(code))
	}
	got := d.Components.Schemas["Error"].Properties["code"].Enum
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the codes of errors differ (-Go +openapi.json):\n%s", diff)
	}
	whole, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for name := range d.Components.Schemas {
		if !strings.Contains(string(whole), `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing refers to the schema %s", name)
		}
	}
}
