// What an adapter's own description says, against what the engine takes: PEFT LoRA for this base, of a bounded rank. Pure.

/** `base`: the repository whose weights the instance runs. Undefined: nothing speaks against it. */
export function whyAdapterRefused(config: string, base: string, mostRank: number): string | undefined {
  const facts = objectIn(config);
  if (!facts) return "its adapter_config.json is not a JSON object";
  if (facts["peft_type"] !== "LORA") return `its type is ${shown(facts["peft_type"])} and not LORA`;
  const ranks = [facts["r"], ...Object.values(objectOf(facts["rank_pattern"]))];
  for (const rank of ranks)
    if (typeof rank !== "number" || !Number.isInteger(rank) || rank < 1 || rank > mostRank)
      return `its rank ${shown(rank)} is not a whole number from 1 to ${mostRank}, which is what the engine takes`;
  if (facts["use_dora"] === true) return "it is a DoRA, which the engines here do not take";
  const ofBase = facts["base_model_name_or_path"];
  if (typeof ofBase === "string" && isRepo(ofBase) && isRepo(base) && !isSameModel(ofBase, base))
    return `it was made for ${ofBase.slice(0, 200)}, and the model it was put on runs ${base}`;
  return undefined;
}

/** Where it was trained, a path of somebody's disk may stand: then the engine's own look at the shapes decides. */
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

function objectIn(text: string): Record<string, unknown> | undefined {
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
/** A value of somebody else's, short enough for a sentence. */
export const shown = (value: unknown) => JSON.stringify(value ?? null).slice(0, 40);
