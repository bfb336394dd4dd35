// Checks that an adapter's description fits the engine: PEFT LoRA for this base, of a bounded rank. Pure.

/** `base`: the repository whose weights the instance runs. Undefined: nothing speaks against it. */
export function whyAdapterRefused(config: string, base: string, maxRank: number): string | undefined {
  const facts = objectIn(config);
  if (!facts) return "its adapter_config.json is not a JSON object";
  if (facts["peft_type"] !== "LORA") return `its type is ${shown(facts["peft_type"])} and not LORA`;
  const ranks = [facts["r"], ...Object.values(objectOf(facts["rank_pattern"]))];
  for (const rank of ranks)
    if (typeof rank !== "number" || !Number.isInteger(rank) || rank < 1 || rank > maxRank)
      return `its rank ${shown(rank)} is not a whole number from 1 to ${maxRank}, which is what the engine takes`;
  if (facts["use_dora"] === true) return "it is a DoRA, which the engines here do not take";
  const ofBase = facts["base_model_name_or_path"];
  if (typeof ofBase === "string" && isRepo(ofBase) && isRepo(base) && !isSameModel(ofBase, base))
    return `it was made for ${ofBase.slice(0, 200)}, and the model it was put on runs ${base}`;
  return undefined;
}

/** The base may be a local path of the machine it was trained on: then the engine's check of the shapes decides. */
const isRepo = (text: string) => /^[A-Za-z0-9][\w.-]*\/[\w.-]+$/.test(text);

/** The same model in another repository, quantised, converted or under another owner, still has its name. */
function isSameModel(one: string, other: string): boolean {
  const [a, b] = [nameOf(one), nameOf(other)];
  return a.includes(b) || b.includes(a);
}

const nameOf = (repo: string) =>
  (repo.split("/").at(-1) ?? repo)
    .toLowerCase()
    .replace(/([-_.](gguf|awq|gptq|fp8|int4|int8|bf16|bnb|4bit|8bit|hf))+$/, "");

/** Undefined for anything but a JSON object. */
export function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const objectOf = (value: unknown) => (typeof value === "object" && value !== null ? value : {});
/** A value from a stranger's file, short enough for a sentence. Lists and objects are not printed: nested ones exhaust the stack. */
export const shown = (value: unknown) => {
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return JSON.stringify(value ?? null).slice(0, 40);
};
