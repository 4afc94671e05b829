// Package redfishtest is a scriptable Redfish service: the BMC of one machine,
// over HTTPS, with the habits of a real vendor. Test a Redfish client against
// it, or emulate a fleet with thousands of them in one process.
//
// # What it is
//
// [New] makes a [Service] from a [Config]: who the machine is, which vendor
// made it, and what stands behind the BMC. The service has a root,
// SessionService with sessions, one System with boot override and reset, its
// EthernetInterfaces, a Chassis and a Manager, each in the vendor's shape:
//
//   - serial numbers where the vendor has them, SKU or OEM members among them;
//   - boot override writes that lose what was left out, refuse a mode, want
//     If-Match, or are taken by a settings resource only;
//   - reset types in the System or in an ActionInfo;
//   - the vendor's error answers, and its notion of success.
//
// The vendors are [Supermicro], [SupermicroX10], [Dell], [HPE], [Lenovo], [AMI],
// [SushyTools] and [Generic]. A [Profile] is data: take one and change it, or
// edit its documents with [Profile.With]. Where a profile follows a public
// report, its comment names it (project#number); the rest follows the Redfish
// standard, not any one firmware version.
//
// # The machine
//
// Resets drive a [Machine]: a virtual machine, an emulated node, or by default a
// [NullMachine] that only remembers. A boot override of Once is handed to the
// next [Machine].PowerOn and cleared, Continuous is handed to each. With
// [Config].PowerLag, resets are answered at once and the System shows PoweringOn
// or PoweringOff until the lag is over; without it, the machine is switched
// before the answer.
//
// # Faults
//
// [Service.Inject] makes requests go wrong: error answers, late answers, lost
// connections, writes that are confirmed and not kept, power that does not come,
// tokens that are dropped. What a client did is read from [Service.Requests],
// which holds no secrets, and from the counters.
//
// # Many of them
//
// An idle service is one listener and one goroutine. Sessions, records and the
// goroutine that switches power exist while they are needed. Give all services
// of a fleet one Profile value and certificates of one [Authority], whose
// certificate is then the only one that clients need to trust.
package redfishtest
