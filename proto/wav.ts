const headerBytes = 44;
const [pcm, channels, bytesPerSample] = [1, 1, 2];
/** Players read to the end of the file. */
const unknownLength = 0xffff_ffff;

/** Header of a WAV file of one channel with 16-bit samples. `dataBytes` undefined: its length is unknown, both sizes are 0xFFFFFFFF. */
export function wavHeader(rate: number, dataBytes?: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(dataBytes === undefined ? unknownLength : headerBytes - 8 + dataBytes, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(pcm, 20);
  header.writeUInt16LE(channels, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * bytesPerSample, 28);
  header.writeUInt16LE(bytesPerSample, 32);
  header.writeUInt16LE(bytesPerSample * 8, 34);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(dataBytes ?? unknownLength, 40);
  return header;
}
