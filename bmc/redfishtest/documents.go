package redfishtest

import (
	"slices"
	"strconv"
	"strings"
)

func (s *Service) systemPath() string  { return "/redfish/v1/Systems/" + s.profile.SystemID }
func (s *Service) chassisPath() string { return "/redfish/v1/Chassis/" + s.profile.ChassisID }
func (s *Service) managerPath() string { return "/redfish/v1/Managers/" + s.profile.ManagerID }
func (s *Service) settingsPath() string {
	return s.systemPath() + "/" + s.profile.Boot.Settings.ID
}

func (s *Service) hardware() Hardware {
	c := &s.config
	return Hardware{
		Serial: c.Serial, BoardSerial: c.BoardSerial, ChassisSerial: c.ChassisSerial,
		UUID: c.UUID, Model: c.Model, MACs: slices.Clone(c.MACs),
	}
}

// shaped gives the vendor its say.
func (s *Service) shaped(kind Resource, d Document) Answer {
	if decorate := s.profile.Decorate[kind]; decorate != nil {
		decorate(s.hardware(), d)
	}
	return found(d)
}

func (s *Service) getVersions(*exchange) Answer {
	return found(Document{"v1": "/redfish/v1/"})
}

func (s *Service) getRoot(*exchange) Answer {
	d := Document{
		"@odata.id": "/redfish/v1/", "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot",
		"Id": "RootService", "Name": "Root Service",
		"RedfishVersion": s.profile.RedfishVersion,
		"Systems":        link("/redfish/v1/Systems"),
		"Chassis":        link("/redfish/v1/Chassis"),
		"Managers":       link("/redfish/v1/Managers"),
		"Tasks":          link(taskServicePath),
		"Links":          Document{},
	}
	for name, value := range map[string]string{"Vendor": s.profile.Vendor, "Product": s.profile.Product} {
		if value != "" {
			d[name] = value
		}
	}
	if !s.profile.Session.None {
		d["SessionService"] = link("/redfish/v1/SessionService")
		d["Links"] = Document{"Sessions": link(sessionsPath)}
	}
	return s.shaped(ResourceRoot, d)
}

func (s *Service) getSessionService(*exchange) Answer {
	return s.shaped(ResourceSessionService, Document{
		"@odata.id": "/redfish/v1/SessionService", "@odata.type": "#SessionService.v1_1_8.SessionService",
		"Id": "SessionService", "Name": "Session Service", "ServiceEnabled": true, "SessionTimeout": s.sessionTimeout(),
		"Sessions": link(sessionsPath),
	})
}

// sessionTimeout is in seconds; the standard allows no less than 30.
func (s *Service) sessionTimeout() int {
	if s.config.SessionTimeout > 0 {
		return max(30, int(s.config.SessionTimeout.Seconds()))
	}
	return 1800
}

func (s *Service) getSystem(*exchange) Answer {
	path := s.systemPath()
	d := Document{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
		"Id": s.profile.SystemID, "Name": "System", "SystemType": "Physical",
		"Manufacturer": s.profile.Manufacturer, "Model": s.config.Model,
		"SerialNumber": s.config.Serial, "UUID": s.config.UUID,
		"PowerState":         s.PowerState(),
		"Status":             Document{"State": "Enabled", "Health": "OK"},
		"Boot":               s.bootDocument(false),
		"EthernetInterfaces": link(path + "/EthernetInterfaces"),
		"Links": Document{
			"Chassis":   []Document{link(s.chassisPath())},
			"ManagedBy": []Document{link(s.managerPath())},
		},
		"Actions": Document{"#ComputerSystem.Reset": s.resetAction()},
	}
	if settings := s.profile.Boot.Settings; settings.ID != "" && settings.Annotated {
		d["@Redfish.Settings"] = Document{
			"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": link(s.settingsPath()),
		}
	}
	s.linkMedia(ResourceSystem, d)
	s.tag(d, "")
	return s.shaped(ResourceSystem, d)
}

// tag puts the entity tag into a document that can be written.
func (s *Service) tag(d Document, resource string) {
	if !s.profile.ETag.None {
		d["@odata.etag"] = s.etag(resource)
	}
}

func (s *Service) getSettings(*exchange) Answer {
	settings := s.profile.Boot.Settings
	d := Document{
		"@odata.id": s.settingsPath(), "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
		"Id": settings.ID, "Name": "Pending settings of the system",
	}
	if len(settings.Keys) > 0 {
		d["Boot"] = s.bootDocument(true)
	}
	s.tag(d, settings.ID)
	return s.shaped(ResourceSettings, d)
}

func (s *Service) getChassis(*exchange) Answer {
	serial := s.config.ChassisSerial
	if serial == "" {
		serial = s.config.Serial
	}
	return s.shaped(ResourceChassis, Document{
		"@odata.id": s.chassisPath(), "@odata.type": "#Chassis.v1_14_0.Chassis",
		"Id": s.profile.ChassisID, "Name": "Computer System Chassis", "ChassisType": "RackMount",
		"Manufacturer": s.profile.Manufacturer, "Model": s.config.Model, "SerialNumber": serial,
		"Status": Document{"State": "Enabled", "Health": "OK"},
		"Links": Document{
			"ComputerSystems": []Document{link(s.systemPath())},
			"ManagedBy":       []Document{link(s.managerPath())},
		},
	})
}

// getAssembly shows the board as a standard BMC does; where the vendor has a
// field of its own, the Chassis does not link it.
func (s *Service) getAssembly(*exchange) Answer {
	path := s.chassisPath() + "/Assembly"
	return found(Document{
		"@odata.id": path, "@odata.type": "#Assembly.v1_3_0.Assembly", "Id": "Assembly", "Name": "Assembly",
		"Assemblies": []Document{{
			"@odata.id": path + "#/Assemblies/0", "MemberId": "0", "Name": "System Board",
			"PhysicalContext": "SystemBoard", "SerialNumber": s.config.BoardSerial,
		}},
	})
}

func (s *Service) getManager(*exchange) Answer {
	d := Document{
		"@odata.id": s.managerPath(), "@odata.type": "#Manager.v1_11_0.Manager",
		"Id": s.profile.ManagerID, "Name": "Manager", "ManagerType": "BMC", "FirmwareVersion": "1.0.0",
		"Status": Document{"State": "Enabled", "Health": "OK"},
		"Links":  Document{"ManagerForServers": []Document{link(s.systemPath())}},
	}
	s.linkMedia(ResourceManager, d)
	return s.shaped(ResourceManager, d)
}

func (s *Service) getInterfaces(*exchange) Answer {
	path := s.systemPath() + "/EthernetInterfaces"
	members := make([]string, len(s.config.MACs))
	for i := range members {
		members[i] = path + "/" + strconv.Itoa(i+1)
	}
	return found(collection(path, "EthernetInterfaceCollection", members))
}

func (s *Service) getInterface(x *exchange) Answer {
	n, err := strconv.Atoi(x.id)
	if err != nil || n < 1 || n > len(s.config.MACs) {
		return s.notFound(x)
	}
	mac := s.config.MACs[n-1]
	return s.shaped(ResourceInterface, Document{
		"@odata.id": x.path, "@odata.type": "#EthernetInterface.v1_6_0.EthernetInterface",
		"Id": x.id, "Name": "Ethernet Interface " + x.id, "MACAddress": mac, "PermanentMACAddress": mac,
	})
}

func (s *Service) getSystems(*exchange) Answer {
	return s.members("/redfish/v1/Systems", "ComputerSystemCollection", s.systemPath())
}

func (s *Service) getChassisCollection(*exchange) Answer {
	return s.members("/redfish/v1/Chassis", "ChassisCollection", s.chassisPath())
}

func (s *Service) getManagers(*exchange) Answer {
	return s.members("/redfish/v1/Managers", "ManagerCollection", s.managerPath())
}

// members lists the machine's own resource among the extra ones.
func (s *Service) members(path, kind, own string) Answer {
	var before, after []string
	for _, e := range s.extras() {
		if parent(e.Path) != path {
			continue
		}
		if e.First {
			before = append(before, e.Path)
		} else {
			after = append(after, e.Path)
		}
	}
	return found(collection(path, kind, append(append(before, own), after...)))
}

// parent returns the path without its last part, "" in the end.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

func collection(path, kind string, members []string) Document {
	links := make([]Document, len(members))
	for i, m := range members {
		links[i] = link(m)
	}
	return Document{
		"@odata.id": path, "@odata.type": "#" + kind + "." + kind, "Name": kind,
		"Members": links, "Members@odata.count": len(links),
	}
}
