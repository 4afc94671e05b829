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
	optionalSize  = 112 + 16*8
)

// efiProgram is a PE32+ image, the form of UEFI applications (Microsoft PE and
// COFF specification 8.x, chapter 3), with a single section of code.
func efiProgram() []byte {
	text := append(append([]byte(nil), printAndHalt...), Marker+"\r\n\x00"...)

	out := make([]byte, 0, 2*fileAlignment)
	u8 := func(v ...byte) { out = append(out, v...) }
	u16 := func(v uint16) { out = binary.LittleEndian.AppendUint16(out, v) }
	u32 := func(v uint32) { out = binary.LittleEndian.AppendUint32(out, v) }
	u64 := func(v uint64) { out = binary.LittleEndian.AppendUint64(out, v) }
	upTo := func(offset int) { out = append(out, make([]byte, offset-len(out))...) }

	u8('M', 'Z')
	upTo(0x3c)
	u32(peOffset)

	u8('P', 'E', 0, 0)
	u16(0x8664)       // machine: x86-64
	u16(1)            // sections
	u32(0)            // time stamp
	u32(0)            // symbol table
	u32(0)            // symbols
	u16(optionalSize) // size of what follows
	u16(0x0022)       // executable, large addresses; relocatable, as the code is position independent

	u16(0x20b)         // PE32+
	u8(0, 0)           // linker version
	u32(fileAlignment) // size of code
	u32(0)             // size of initialised data
	u32(0)             // size of uninitialised data
	u32(pageSize)      // entry point
	u32(pageSize)      // base of code
	u64(0)             // image base
	u32(pageSize)      // section alignment
	u32(fileAlignment)
	for range 6 { // versions of system, image and subsystem
		u16(0)
	}
	u32(0)             // reserved
	u32(2 * pageSize)  // size of image
	u32(fileAlignment) // size of headers
	u32(0)             // checksum
	u16(10)            // subsystem: EFI application
	u16(0)             // DLL characteristics
	for range 4 {      // stack and heap
		u64(0)
	}
	u32(0)  // loader flags
	u32(16) // data directories, all empty
	upTo(len(out) + 16*8)

	u8('.', 't', 'e', 'x', 't', 0, 0, 0)
	u32(uint32(len(text)))
	u32(pageSize)      // address in memory
	u32(fileAlignment) // size in the file
	u32(fileAlignment) // offset in the file
	u32(0)
	u32(0)
	u32(0)
	u32(0x60000020) // code, executable, readable

	upTo(fileAlignment)
	u8(text...)
	upTo(2 * fileAlignment)
	return out
}
