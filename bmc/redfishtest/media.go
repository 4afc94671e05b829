package redfishtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// MediaRules is the virtual media that a BMC has.
type MediaRules struct {
	// None has no virtual media that a standard client can use.
	None bool
	// On says which documents lead to it: [ResourceManager], [ResourceSystem] or
	// both, which then show the same drives. Nil is the Manager.
	On []Resource
	// Slots are the drives; nil is one called "CD1".
	Slots []Slot
	// ByPatch has no actions: a PATCH of Image and Inserted does it.
	ByPatch bool
	// Control is a maker's name, under which Oem has the one action
	// VirtualMedia.VmmControl in place of the standard ones (Huawei, xFusion).
	Control string
	// Refusal answers every insert, e.g. for want of a licence.
	Refusal Answer
	// Done answers an insert or eject that was taken; zero is 204.
	Done Answer
}

// Slot is one virtual drive.
type Slot struct {
	// ID is the last part of its path.
	ID string
	// Types are its MediaTypes: "CD", "DVD", "USBStick", "Floppy".
	Types []string
	// Closed refuses images from the network.
	Closed bool
}

// medium is what is in a drive; an empty image means that nothing is.
type medium struct {
	image    string
	writable bool
}

// Media returns the URI of the image in the virtual CD drive that a boot would
// find, empty when there is none.
func (s *Service) Media() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	return s.inserted()
}

// inserted is Media with the lock held. Drives that are no CD drives do not
// count: no machine boots an ISO image from a floppy.
func (s *Service) inserted() string {
	for _, slot := range s.slots() {
		if m := s.media[slot.ID]; m.image != "" && slices.Contains(slot.Types, "CD") {
			return m.image
		}
	}
	return ""
}

func (s *Service) slots() []Slot {
	rules := s.profile.Media
	switch {
	case rules.None:
		return nil
	case len(rules.Slots) == 0:
		return []Slot{{ID: "CD1", Types: []string{"CD", "DVD"}}}
	}
	return rules.Slots
}

func (s *Service) slot(id string) (Slot, bool) {
	slots := s.slots()
	i := slices.IndexFunc(slots, func(slot Slot) bool { return slot.ID == id })
	if i < 0 {
		return Slot{}, false
	}
	return slots[i], true
}

// hasMedia tells whether documents of this kind lead to virtual media.
func (s *Service) hasMedia(kind Resource) bool {
	rules := s.profile.Media
	if rules.None {
		return false
	}
	return slices.Contains(rules.On, kind) || len(rules.On) == 0 && kind == ResourceManager
}

func (s *Service) linkMedia(kind Resource, d Document) {
	if s.hasMedia(kind) {
		d["VirtualMedia"] = link(d["@odata.id"].(string) + "/VirtualMedia")
	}
}

// reachable tells whether the path of a request is one of the documents that
// have virtual media.
func (s *Service) reachable(x *exchange) bool {
	if strings.HasPrefix(x.path, s.systemPath()+"/") {
		return s.hasMedia(ResourceSystem)
	}
	return s.hasMedia(ResourceManager)
}

func (s *Service) getMediaCollection(x *exchange) Answer {
	if !s.reachable(x) {
		return s.notFound(x)
	}
	slots := s.slots()
	members := make([]string, len(slots))
	for i, slot := range slots {
		members[i] = x.path + "/" + slot.ID
	}
	return found(collection(x.path, "VirtualMediaCollection", members))
}

func (s *Service) getMedium(x *exchange) Answer {
	slot, ok := s.slot(x.id)
	if !ok || !s.reachable(x) {
		return s.notFound(x)
	}
	s.mu.Lock()
	m := s.media[slot.ID]
	s.mu.Unlock()
	via := "NotConnected"
	if m.image != "" {
		via = "URI"
	}
	d := Document{
		"@odata.id": x.path, "@odata.type": "#VirtualMedia.v1_3_2.VirtualMedia",
		"Id": slot.ID, "Name": "Virtual Media " + slot.ID, "MediaTypes": slot.Types,
		"Image": nullable(m.image), "ImageName": nullable(m.image[strings.LastIndexByte(m.image, '/')+1:]),
		"Inserted": m.image != "", "WriteProtected": !m.writable, "ConnectedVia": via,
	}
	switch rules := s.profile.Media; {
	case rules.Control != "":
		d["Oem"] = Document{rules.Control: Document{"Actions": Document{
			"#VirtualMedia.VmmControl": Document{"target": x.path + "/Oem/" + rules.Control + "/Actions/VirtualMedia.VmmControl"},
		}}}
	case !rules.ByPatch:
		d["Actions"] = Document{
			"#VirtualMedia.InsertMedia": Document{"target": x.path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  Document{"target": x.path + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	return s.shaped(ResourceMedia, d)
}

// mediaRequest holds the parameters of InsertMedia, which are the properties of
// the PATCH as well (DSP2046 6.150).
type mediaRequest struct {
	Image          *string
	Inserted       *bool
	WriteProtected *bool
}

func (s *Service) insertMedia(x *exchange) Answer {
	return s.mediaAction(x, func(slot Slot, r mediaRequest) Answer {
		if r.Image == nil {
			return fail(http.StatusBadRequest, s.message("ActionParameterMissing"), "The action needs a parameter.", "VirtualMedia.InsertMedia", "Image")
		}
		return s.insert(x, slot, r)
	})
}

func (s *Service) ejectMedia(x *exchange) Answer {
	return s.mediaAction(x, func(slot Slot, _ mediaRequest) Answer { return s.eject(x, slot) })
}

func (s *Service) mediaAction(x *exchange, do func(Slot, mediaRequest) Answer) Answer {
	slot, ok := s.slot(x.id)
	rules := s.profile.Media
	if !ok || !s.reachable(x) || rules.ByPatch || rules.Control != "" {
		return s.notFound(x)
	}
	if a := s.actionPrecondition(x); a.given() {
		return a
	}
	var r mediaRequest
	if err := json.Unmarshal(x.body, &r); err != nil && len(x.body) > 0 {
		return s.malformed()
	}
	return do(slot, r)
}

// vmmControl is the maker's action for both.
func (s *Service) vmmControl(x *exchange) Answer {
	slot, ok := s.slot(x.id)
	if !ok || !s.reachable(x) || s.profile.Media.Control == "" {
		return s.notFound(x)
	}
	var r struct {
		VmmControlType string
		mediaRequest
	}
	if err := json.Unmarshal(x.body, &r); err != nil {
		return s.malformed()
	}
	switch {
	case r.VmmControlType == "Connect" && r.Image != nil:
		return s.insert(x, slot, r.mediaRequest)
	case r.VmmControlType == "Disconnect":
		return s.eject(x, slot)
	}
	return fail(http.StatusBadRequest, s.message("ActionParameterMissing"), "The action needs its parameters.", "VirtualMedia.VmmControl", "VmmControlType")
}

func (s *Service) patchMedium(x *exchange) Answer {
	slot, ok := s.slot(x.id)
	if !ok || !s.reachable(x) {
		return s.notFound(x)
	}
	if !s.profile.Media.ByPatch {
		return fail(http.StatusMethodNotAllowed, s.message("OperationNotAllowed"), "Use the actions of the resource.")
	}
	if rules := s.profile.ETag; rules.Required.given() && x.request.Header.Get("If-Match") == "" {
		return rules.Required
	}
	var r mediaRequest
	if err := json.Unmarshal(x.body, &r); err != nil {
		return s.malformed()
	}
	if r.Inserted != nil && !*r.Inserted || r.Image == nil {
		return s.eject(x, slot)
	}
	return s.insert(x, slot, r)
}

func (s *Service) insert(x *exchange, slot Slot, r mediaRequest) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	scheme, _, isURI := strings.Cut(*r.Image, "://")
	known := slices.Contains([]string{"http", "https", "nfs", "cifs", "smb"}, scheme)
	switch {
	case s.profile.Media.Refusal.given():
		return s.profile.Media.Refusal
	case !isURI || !known:
		return fail(http.StatusBadRequest, s.message("ActionParameterValueFormatError"), "The value is not the URI of an image.", *r.Image, "Image")
	case slot.Closed:
		return fail(http.StatusBadRequest, s.message("ActionNotSupported"), "The drive takes no image from the network.", "VirtualMedia.InsertMedia")
	case s.media[slot.ID].image != "":
		return fail(http.StatusBadRequest, s.message("ResourceInUse"), "The drive is in use: eject first.")
	}
	m := medium{image: *r.Image, writable: r.WriteProtected != nil && !*r.WriteProtected}
	return s.changeMedia(x, slot, m)
}

func (s *Service) eject(x *exchange, slot Slot) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeMedia(x, slot, medium{})
}

// changeMedia puts m into the drive, now or in a task; the lock is held.
func (s *Service) changeMedia(x *exchange, slot Slot, m medium) Answer {
	ignored := x.effect.ignoreWrite
	return s.perhapsTask(x, s.profile.Tasks.Media, orNoContent(s.profile.Media.Done), func() {
		if ignored {
			return
		}
		if s.media == nil {
			s.media = make(map[string]medium)
		}
		s.media[slot.ID] = m
	})
}
