// The voices that Kokoro-82M comes with. They are listed from here, so that a list never waits for a model to start.

export interface PresetVoice {
  /** Also its id. */
  readonly name: string;
  readonly description: string;
}

/** By language and sex, as the model's own names begin. */
const families: Readonly<Record<string, readonly [what: string, names: string]>> = {
  af: ["American English, female", "alloy aoede bella heart jessica kore nicole nova river sarah sky"],
  am: ["American English, male", "adam echo eric fenrir liam michael onyx puck santa"],
  bf: ["British English, female", "alice emma isabella lily"],
  bm: ["British English, male", "daniel fable george lewis"],
  ef: ["Spanish, female", "dora"],
  em: ["Spanish, male", "alex santa"],
  ff: ["French, female", "siwis"],
  hf: ["Hindi, female", "alpha beta"],
  hm: ["Hindi, male", "omega psi"],
  if: ["Italian, female", "sara"],
  im: ["Italian, male", "nicola"],
  jf: ["Japanese, female", "alpha gongitsune nezumi tebukuro"],
  jm: ["Japanese, male", "kumo"],
  pf: ["Brazilian Portuguese, female", "dora"],
  pm: ["Brazilian Portuguese, male", "alex santa"],
  zf: ["Mandarin Chinese, female", "xiaobei xiaoni xiaoxiao xiaoyi"],
  zm: ["Mandarin Chinese, male", "yunjian yunxi yunxia yunyang"],
};

export const presetVoices: readonly PresetVoice[] = Object.entries(families).flatMap(([prefix, [what, names]]) =>
  names.split(" ").map((name) => ({ name: `${prefix}_${name}`, description: `${what}, comes with Kokoro-82M` })),
);

const known = new Set(presetVoices.map(({ name }) => name));

export const isPresetVoice = (name: string): boolean => known.has(name);
