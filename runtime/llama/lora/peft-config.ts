// adapter_config.json of PEFT -> what a converter needs of it; refuses what a GGUF LoRA cannot express. Pure.
import { objectIn } from "../../server/fields.ts";
import { AdapterRefusal } from "./adapter-refusal.ts";

export interface PeftConfig {
  readonly rank: number;
  /** Factor that PEFT puts before B x A of this module, which has this rank. */
  scaleOf(module: string, rank: number): number;
}

const maxRank = 256;

/** Throws AdapterRefusal. */
export function readPeftConfig(text: string): PeftConfig {
  const config = objectIn(text);
  if (!config) throw new AdapterRefusal("adapter_config.json is no JSON object");
  const refuse = (why: string): never => {
    throw new AdapterRefusal(`this adapter cannot be loaded: ${why}`);
  };
  if (config["peft_type"] !== "LORA")
    refuse(`peft_type is ${JSON.stringify(config["peft_type"])}, only LORA is served`);
  if (config["use_dora"]) refuse("it is a DoRA (use_dora), which llama.cpp cannot apply");
  if ((config["bias"] ?? "none") !== "none") refuse("it changes biases (bias), train it with bias none");
  if (isFilled(config["modules_to_save"]))
    refuse("it holds whole modules (modules_to_save), merge it into its base model");
  if (config["fan_in_fan_out"]) refuse("its matrices are transposed (fan_in_fan_out)");
  const rank = count(config["r"], "r");
  if (rank > maxRank) refuse(`its rank is ${rank}, the most is ${maxRank}`);
  const alpha = count(config["lora_alpha"], "lora_alpha");
  const ranks = patterns(config["rank_pattern"], "rank_pattern");
  const alphas = patterns(config["alpha_pattern"], "alpha_pattern");
  const isRankStabilised = config["use_rslora"] === true;
  return {
    rank,
    scaleOf: (module, actual) => {
      const r = ranks(module) ?? rank;
      if (r !== actual) refuse(`${module} has rank ${actual}, its configuration says ${r}`);
      return (alphas(module) ?? alpha) / (isRankStabilised ? Math.sqrt(r) : r);
    },
  };
}

/** PEFT reads the keys as regular expressions; only plain endings of names are taken, so that no pattern can stall us. */
function patterns(value: unknown, name: string): (module: string) => number | undefined {
  const entries = Object.entries((value ?? {}) as Record<string, unknown>).map(([key, number]) => {
    if (!/^\^?[\w.]+\$?$/.test(key))
      throw new AdapterRefusal(`${name} has the key ${key}; give names of modules instead`);
    return [key.replace(/^\^|\$$/g, ""), count(number, `${name}.${key}`)] as const;
  });
  return (module) => entries.find(([key]) => module === key || module.endsWith(`.${key}`))?.[1];
}

function count(value: unknown, name: string): number {
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return value;
  throw new AdapterRefusal(`adapter_config.json must hold a number above 0 as ${name}`);
}

const isFilled = (value: unknown) => Array.isArray(value) && value.length > 0;
