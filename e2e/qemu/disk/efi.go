package disk

import "encoding/binary"

// printAndHalt is 64-bit code that prints the zero-terminated text behind it to
// the serial port 0x3f8. It stops with interrupts off: the firmware's watchdog
// would otherwise reset the machine after five minutes.
var printAndHalt = []byte{
	0x48, 0x8d, 0x35, 0x1e, 0x00, 0x00, 0x00, //       lea rsi,[rip+0x1e]: the text
	0xfc,       //                               cld
	0xac,       //                         next: lodsb
	0x84, 0xc0, //                               test al,al
	0x74, 0x14, //                               jz stop
	0x88, 0xc3, //                               mov bl,al
	0x66, 0xba, 0xfd, 0x03, //                   mov dx,0x3fd
	0xec,       //                         wait: in al,dx
	0xa8, 0x20, //                               test al,0x20: room for a byte?
	0x74, 0xfb, //                               jz wait
	0x66, 0xba, 0xf8, 0x03, //                   mov dx,0x3f8
	0x88, 0xd8, //                               mov al,bl
	0xee,       //                               out dx,al
	0xeb, 0xe7, //                               jmp next
	0xfa,       //                         stop: cli
	0xf4,       //                               hlt
	0xeb, 0xfc, //                               jmp stop
}

// Where things are in the file and in memory: one page of headers, one of code.
const (
	peOffset      = 0x40
	fileAlignment = 0x200
	pageSize      = 0x1000
	directories   = 16
	optionalSize  = 112 + directories*8
)

// efiProgram is a PE32+ image, the form of UEFI applications (Microsoft PE and
// COFF specification 8.x, chapter 3), with a single section of code.
func efiProgram() []byte {
	text := append(append([]byte(nil), printAndHalt...), Marker+"\r\n\x00"...)
	w := &littleEndian{}
	w.bytes('M', 'Z')
	w.padTo(0x3c)
	w.u32(peOffset)
	coffHeader(w)
	optionalHeader(w)
	sectionHeader(w, len(text))
	w.padTo(fileAlignment)
	w.bytes(text...)
	w.padTo(2 * fileAlignment)
	return w.out
}

func coffHeader(w *littleEndian) {
	w.bytes('P', 'E', 0, 0)
	w.u16(0x8664)       // machine: x86-64
	w.u16(1)            // sections
	w.u32(0)            // time stamp
	w.u32(0, 0)         // symbol table
	w.u16(optionalSize) // size of the next header
	w.u16(0x0022)       // executable, large addresses; relocatable, as the code is position independent
}

func optionalHeader(w *littleEndian) {
	w.u16(0x20b)            // PE32+
	w.bytes(0, 0)           // linker version
	w.u32(fileAlignment)    // size of code
	w.u32(0, 0)             // size of data
	w.u32(pageSize)         // entry point
	w.u32(pageSize)         // base of code
	w.u64(0)                // image base
	w.u32(pageSize)         // section alignment
	w.u32(fileAlignment)    // file alignment
	w.u16(0, 0, 0, 0, 0, 0) // versions of system, image and subsystem
	w.u32(0)                // reserved
	w.u32(2 * pageSize)     // size of image
	w.u32(fileAlignment)    // size of headers
	w.u32(0)                // checksum
	w.u16(10)               // subsystem: EFI application
	w.u16(0)                // DLL characteristics
	w.u64(0, 0, 0, 0)       // stack and heap
	w.u32(0)                // loader flags
	w.u32(directories)      // data directories, all empty
	w.padTo(len(w.out) + directories*8)
}

func sectionHeader(w *littleEndian, size int) {
	w.bytes('.', 't', 'e', 'x', 't', 0, 0, 0)
	w.u32(uint32(size))
	w.u32(pageSize)      // address in memory
	w.u32(fileAlignment) // size in the file
	w.u32(fileAlignment) // offset in the file
	w.u32(0, 0, 0)       // relocations and line numbers
	w.u32(0x60000020)    // code, executable, readable
}

// littleEndian builds a file of little-endian numbers.
type littleEndian struct{ out []byte }

func (w *littleEndian) bytes(values ...byte) { w.out = append(w.out, values...) }

func (w *littleEndian) u16(values ...uint16) {
	for _, v := range values {
		w.out = binary.LittleEndian.AppendUint16(w.out, v)
	}
}

func (w *littleEndian) u32(values ...uint32) {
	for _, v := range values {
		w.out = binary.LittleEndian.AppendUint32(w.out, v)
	}
}

func (w *littleEndian) u64(values ...uint64) {
	for _, v := range values {
		w.out = binary.LittleEndian.AppendUint64(w.out, v)
	}
}

// padTo fills with zeros up to an offset.
func (w *littleEndian) padTo(offset int) { w.out = append(w.out, make([]byte, offset-len(w.out))...) }
