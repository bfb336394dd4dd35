// A voice: one preset, or several in parts that add up to 1. Written `af_heart`, or `af_heart:0.7,am_adam:0.3`. Pure.
export interface VoicePart {
  readonly preset: string;
  readonly weight: number;
}

export type Voice = readonly VoicePart[];

/** Undefined: no such preset, or no blend. Also the last part of a preset's name, where it is the only one: `heart`. */
export function readVoice(text: string, presets: readonly string[]): Voice | undefined {
  const parts = text.split(",").map((part) => {
    const [, name = "", weight] = /^\s*([\w-]+)(?:\s*:\s*(\d+(?:\.\d+)?))?\s*$/.exec(part) ?? [];
    return { preset: presetOf(name, presets), weight: weight === undefined ? 1 : Number(weight) };
  });
  const total = parts.reduce((sum, { weight }) => sum + weight, 0);
  if (total <= 0 || !Number.isFinite(total) || parts.length > 16) return undefined;
  const voice: VoicePart[] = [];
  for (const { preset, weight } of parts) {
    if (preset === undefined) return undefined;
    voice.push({ preset, weight: weight / total });
  }
  return voice;
}

export function voiceText(voice: Voice): string {
  return voice.map(({ preset, weight }) => `${preset}:${Number(weight.toFixed(4))}`).join(",");
}

function presetOf(name: string, presets: readonly string[]): string | undefined {
  if (presets.includes(name)) return name;
  const found = presets.filter((preset) => preset.endsWith(`_${name}`));
  return name !== "" && found.length === 1 ? found[0] : undefined;
}
