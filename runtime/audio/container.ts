// Detects the audio format of a file from its first bytes: the name from the sender is not trusted. Pure.
export type AudioContainer = "wav" | "mp3" | "flac" | "ogg" | "mp4" | "matroska" | "aac";

export function containerOf(bytes: Buffer): AudioContainer | undefined {
  const text = (start: number, end: number) => bytes.toString("latin1", start, end);
  if (text(0, 4) === "RIFF" && text(8, 12) === "WAVE") return "wav";
  if (text(0, 4) === "fLaC") return "flac";
  if (text(0, 4) === "OggS") return "ogg";
  if (text(4, 8) === "ftyp") return "mp4";
  if (bytes.length >= 4 && bytes.readUInt32BE(0) === 0x1a45dfa3) return "matroska";
  if (text(0, 3) === "ID3") return "mp3";
  if (bytes.length < 2 || bytes[0] !== 0xff) return undefined;
  const second = bytes[1] as number;
  // Both begin with twelve set bits; ADTS then has layer 0, which MPEG audio reserves.
  if ((second & 0xf6) === 0xf0) return "aac";
  return (second & 0xe0) === 0xe0 && (second & 0x06) !== 0 ? "mp3" : undefined;
}
