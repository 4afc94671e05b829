package redfishtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	keyTarget  = "BootSourceOverrideTarget"
	keyEnabled = "BootSourceOverrideEnabled"
	keyMode    = "BootSourceOverrideMode"
	keyURI     = "HttpBootUri"

	modeUEFI   = "UEFI"
	modeLegacy = "Legacy"

	enabledDisabled   = "Disabled"
	enabledOnce       = "Once"
	enabledContinuous = "Continuous"

	targetNone = "None"
	targetPxe  = "Pxe"
	targetHTTP = "UefiHttp"
)

// restOverride is what is shown while nothing is overridden.
func (s *Service) restOverride() Override {
	o := Override{Target: targetNone, Enabled: enabledDisabled, Mode: s.config.BootMode}
	if rest := s.profile.Boot.RestTarget; rest != "" {
		o.Target = rest
	}
	return o
}

func (s *Service) enabledValues() []string {
	if values := s.profile.Boot.Enabled; len(values) > 0 {
		return values
	}
	return []string{enabledDisabled, enabledOnce, enabledContinuous}
}

// bootDocument is the Boot object of the System or of the settings resource.
func (s *Service) bootDocument(settings bool) Document {
	rules := s.profile.Boot
	o := s.Override()
	if rules.Settings.Deferred && !settings {
		o = s.restOverride()
	}
	if o.Target == targetPxe && o.Mode == modeUEFI && o.Enabled != enabledDisabled && rules.PxeReadBack != "" {
		o.Target = rules.PxeReadBack
	}
	d := Document{keyTarget: o.Target, keyEnabled: o.Enabled, keyMode: o.Mode}
	if settings || !rules.HideAllowable {
		d[keyTarget+"@Redfish.AllowableValues"] = rules.Targets
		d[keyMode+"@Redfish.AllowableValues"] = []string{modeLegacy, modeUEFI}
		if len(rules.Enabled) > 0 {
			d[keyEnabled+"@Redfish.AllowableValues"] = rules.Enabled
		}
	}
	if s.hasHTTPBootURI() {
		d[keyURI] = nullable(o.HTTPBootURI)
	}
	for _, key := range []string{keyTarget, keyEnabled, keyMode, keyURI} {
		if settings && !slices.Contains(rules.Settings.Keys, key) || key == keyMode && rules.NoMode {
			delete(d, key)
			delete(d, key+"@Redfish.AllowableValues")
		}
	}
	return d
}

func (s *Service) patchSystem(x *exchange) Answer {
	if refusal := s.profile.Boot.Settings.Refusal; refusal.given() {
		return refusal
	}
	return s.patchBoot(x, "", []string{keyTarget, keyEnabled, keyMode, keyURI})
}

// hasHTTPBootURI tells whether the BMC has HttpBootUri at all.
func (s *Service) hasHTTPBootURI() bool {
	rules := s.profile.Boot
	return !rules.NoHTTPBootURI && (slices.Contains(rules.Targets, targetHTTP) || slices.Contains(rules.Unlisted, targetHTTP))
}

// nullable shows what is not set as null, which is what Redfish does.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (s *Service) patchSettings(x *exchange) Answer {
	return s.patchBoot(x, s.profile.Boot.Settings.ID, s.profile.Boot.Settings.Keys)
}

// patchBoot checks everything before it changes anything.
func (s *Service) patchBoot(x *exchange, resource string, keys []string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.precondition(x, resource); a.given() {
		return a
	}
	if rules := s.profile.Boot; rules.DuringPOST.given() && s.inPOST() {
		return rules.DuringPOST
	}
	given, a := s.parseBoot(x.body, keys)
	if a.given() {
		return a
	}
	if a = s.checkBoot(given); a.given() {
		return a
	}
	ignored, dropped := x.effect.ignoreWrite, x.effect.dropOverride
	return s.perhapsTask(x, s.profile.Tasks.Patches, orNoContent(s.profile.Patched), func() {
		if ignored {
			return
		}
		s.override = s.merged(given)
		if _, ok := given[keyMode]; ok && s.profile.Boot.JobOnMode {
			s.counts.configJobs++
		}
		s.dropNext = s.dropNext || dropped
		s.revision++
	})
}

// inPOST tells whether the firmware is in its self-test; the lock is held.
func (s *Service) inPOST() bool {
	return !s.onAt.IsZero() && time.Since(s.onAt) < s.config.POST && s.machine.Powered()
}

// parseBoot returns the Boot properties of a PATCH body by name.
func (s *Service) parseBoot(body []byte, keys []string) (map[string]string, Answer) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, s.malformed()
	}
	for name := range patch {
		if name != "Boot" || len(keys) == 0 {
			return nil, s.unknown(name)
		}
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(patch["Boot"], &properties); err != nil {
		return nil, s.malformed()
	}
	given := make(map[string]string)
	for name, raw := range properties {
		if !slices.Contains(keys, name) {
			return nil, s.unknown(name)
		}
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, fail(http.StatusBadRequest, s.message("PropertyValueTypeError"), "The value has the wrong type.", string(raw), name)
		}
		given[name] = value
	}
	return given, Answer{}
}

func (s *Service) unknown(name string) Answer {
	return Answer{Status: http.StatusBadRequest, Body: ErrorBody(s.message("GeneralError"), s.message("PropertyUnknown"),
		"The property "+name+" is not in the list of valid properties for the resource.", name)}
}

// checkBoot refuses what the vendor refuses.
func (s *Service) checkBoot(given map[string]string) Answer {
	rules := s.profile.Boot
	for _, key := range []string{keyTarget, keyEnabled, keyMode} {
		if _, ok := given[key]; !ok && rules.RequireAll {
			return fail(http.StatusBadRequest, s.message("PropertyMissing"), "The property "+key+" is a required property and must be included in the request.", key)
		}
	}
	if _, ok := given[keyMode]; ok && rules.NoMode {
		return s.unknown(keyMode)
	}
	if _, ok := given[keyURI]; ok && !s.hasHTTPBootURI() {
		return s.unknown(keyURI)
	}
	if _, ok := given[keyMode]; ok && rules.ModeRefusal.given() {
		return rules.ModeRefusal
	}
	if given[keyEnabled] == enabledDisabled && given[keyTarget] == targetNone && rules.ClearRefusal.given() {
		return rules.ClearRefusal
	}
	allowed := map[string][]string{
		keyTarget: slices.Concat(rules.Targets, rules.Unlisted), keyEnabled: s.enabledValues(), keyMode: {modeUEFI, modeLegacy},
	}
	for name, value := range given {
		if name == keyURI {
			if value != "" && !strings.Contains(value, "://") {
				return fail(http.StatusBadRequest, s.message("PropertyValueFormatError"), "The value is not a URI.", value, name)
			}
			continue
		}
		if !slices.Contains(allowed[name], value) {
			return fail(http.StatusBadRequest, s.message("PropertyValueNotInList"), "The value is not in the list of acceptable values.", value, name)
		}
	}
	return Answer{}
}

// merged is the override after a PATCH; the lock is held.
func (s *Service) merged(given map[string]string) Override {
	rules := s.profile.Boot
	next := s.override
	pick := func(field *string, key, omitted string) {
		if value, ok := given[key]; ok {
			*field = value
		} else if omitted != "" {
			*field = omitted
		}
	}
	pick(&next.Target, keyTarget, "")
	pick(&next.Enabled, keyEnabled, rules.OmittedEnabled)
	pick(&next.Mode, keyMode, rules.OmittedMode)
	pick(&next.HTTPBootURI, keyURI, "")
	if next.Enabled == enabledOnce && rules.AlwaysContinuous {
		next.Enabled = enabledContinuous
	}
	if next.Enabled == enabledDisabled {
		next.Target, next.HTTPBootURI = s.restOverride().Target, ""
	}
	return next
}

// takeBoot is the firmware reading the override at the start of a boot: Once is
// cleared, and the function that it returns puts it back if the machine did not
// start after all.
func (s *Service) takeBoot(soft bool, dropped bool) (boot Boot, undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	before := s.override
	boot = Boot{Mode: s.config.BootMode, Media: s.inserted()}
	if before.Enabled == enabledDisabled || soft && s.profile.Boot.IgnoredByRestart {
		return boot, func() {}
	}
	if !dropped && !s.dropNext {
		boot.Target, boot.Mode = before.Target, before.Mode
		if boot.Target == targetHTTP {
			boot.HTTPBootURI = before.HTTPBootURI
		}
	}
	if before.Enabled == enabledOnce || dropped || s.dropNext {
		s.override = s.restOverride()
		s.revision++
	}
	s.dropNext = false
	return boot, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.override == s.restOverride() {
			s.override = before
			s.revision++
		}
	}
}
