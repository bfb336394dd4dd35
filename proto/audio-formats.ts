/** Formats of generated speech. */
export const audioFormats = ["mp3", "opus", "flac", "wav", "pcm", "ulaw", "alaw"] as const;
export type AudioFormat = (typeof audioFormats)[number];
