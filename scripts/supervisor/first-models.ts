// Models that `up` can deploy at its start: demo models by their short name, and every model of the catalogue.
import { readFileSync } from "node:fs";
import type { DemoModel } from "../../control-plane/catalog/demo-model.ts";
import { demoModelByKey, demoModelNamed } from "../../control-plane/catalog/demo-models.ts";
import { readCatalogue } from "../../control-plane/catalog/model-catalogue.ts";
import {
  perMillion,
  perUnit,
  type Pricing as TokenPricing,
  type UnitPricing,
} from "../../control-plane/http/models/rates.ts";

export interface FirstModel {
  readonly modelName: string;
  readonly task: string;
  readonly description: string;
  /** Repository of the weights on a GPU, and on a share of processor and memory. */
  readonly repo: string;
  readonly cpuRepo: string;
  /** Tokens; undefined: the default of its deployment. */
  readonly cpuContext: number | undefined;
  /** Undefined: the default of a deployment. */
  readonly maxBatchSize: number | undefined;
  readonly pricing: Pricing;
  /** Undefined: only on the hub. */
  readonly weights: DemoModel["weights"] | undefined;
}

export type Pricing = TokenPricing & UnitPricing;

/** Offered until the operator sets another price. */
export const defaultPricing: Pricing = { input: 0.02, cached_input: 0.01, output: 0.04 };
const soundPricing = { input: 0, cached_input: 0, output: 0, characters: 2, audio: 0.1 };
/** As long as that of the demo model: a share of processor and memory has little memory for contexts. */
const cpuContext = 4096;

/** Finds a demo model by its short name or repository, or a model of the catalogue by its name; case-insensitive. */
export function firstModelOf(name: string): FirstModel | undefined {
  const demo = demoModelByKey(name) ?? demoModelNamed(name);
  if (demo) return ofDemo(demo);
  const text = readFileSync(new URL("../../control-plane/catalog/model-catalogue.json", import.meta.url), "utf8");
  const entry = readCatalogue(text).find((one) => one.name.toLowerCase() === name.toLowerCase());
  return (
    entry && {
      modelName: entry.name,
      task: entry.task,
      description: `${entry.name} (${entry.licence})`,
      repo: entry.name,
      cpuRepo: entry.gguf ?? entry.name,
      cpuContext: entry.task === "text-generation" ? Math.min(entry.context, cpuContext) : undefined,
      maxBatchSize: undefined,
      pricing: /speech/.test(entry.task) ? soundPricing : defaultPricing,
      weights: undefined,
    }
  );
}

function ofDemo({ modelName, task, repo, maxBatchSize, rates, ...demo }: DemoModel): FirstModel {
  return {
    modelName,
    task,
    description: `${demo.description} (${demo.license})`,
    repo,
    cpuRepo: repo,
    cpuContext: undefined,
    maxBatchSize,
    pricing: { ...perMillion(rates), ...perUnit(rates) },
    weights: demo.weights,
  };
}
