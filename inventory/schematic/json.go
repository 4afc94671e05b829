package schematic

import (
	"encoding/json"
	"fmt"

	"gopkg.in/yaml.v3"
)

// hidden stands for an embedded machine config, which is full of secrets.
const hidden = "(not shown)"

// MarshalJSON writes the canonical form as JSON, with the same names, for people
// and programs to look at: an embedded machine config is left out. The id is
// that of the YAML text, not of this.
func (s Schematic) MarshalJSON() ([]byte, error) {
	if s.Customization.EmbeddedMachineConfiguration != "" {
		s.Customization.EmbeddedMachineConfiguration = hidden
	}
	text, err := marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the schematic: %w", err)
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("write the schematic: %w", err)
	}
	return json.Marshal(named(value))
}

// named makes text of the keys of maps, which in YAML can be anything.
func named(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = named(item)
		}
	case map[any]any:
		texts := make(map[string]any, len(v))
		for key, item := range v {
			texts[fmt.Sprint(key)] = named(item)
		}
		return texts
	case []any:
		for i, item := range v {
			v[i] = named(item)
		}
	}
	return value
}
