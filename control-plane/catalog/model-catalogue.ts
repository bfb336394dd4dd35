// Catalogue of models that people run most: what is known of each before it is deployed. Facts come from the models' own pages
// (model-catalogue.json); an operator's file or URL adds models and replaces entries of the same name.
import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import { type Static, Type } from "typebox";
import { Value } from "typebox/value";
import { repeat } from "../../proto/repeat.ts";

const name = Type.String({ minLength: 3, maxLength: 200, pattern: "^[\\w./:-]+$" });

const CatalogueEntry = Type.Object({
  name,
  revision: Type.Optional(Type.String({ maxLength: 128 })),
  task: Type.String({ maxLength: 64 }),
  licence: Type.String({ maxLength: 128 }),
  /** The hub gives its files only to accounts that accepted its licence. */
  is_gated: Type.Optional(Type.Boolean()),
  /** Billions. */
  parameters: Type.Number({ exclusiveMinimum: 0, maximum: 100_000 }),
  /** Billions per token, for a mixture of experts. */
  active: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 100_000 })),
  /** Tokens. */
  context: Type.Integer({ minimum: 1, maximum: 100_000_000 }),
  inputs: Type.Optional(Type.Array(Type.String({ maxLength: 16 }), { maxItems: 8 })),
  engines: Type.Array(Type.String({ maxLength: 16 }), { minItems: 1, maxItems: 8 }),
  /** Quantisation of the published weights; default bf16. */
  weights: Type.Optional(Type.String({ maxLength: 16 })),
  /** Repository with the same model as GGUF. */
  gguf: Type.Optional(name),
  /** Names of vLLM. */
  tool_parser: Type.Optional(Type.String({ maxLength: 64 })),
  reasoning_parser: Type.Optional(Type.String({ maxLength: 64 })),
});
type CatalogueEntry = Static<typeof CatalogueEntry>;
const CatalogueFile = Type.Object({ models: Type.Array(CatalogueEntry, { maxItems: 10_000 }) });

export interface CatalogueModel extends CatalogueEntry {
  readonly revision: string;
  readonly inputs: string[];
  /** Estimated size of the weights in GiB, by quantisation. */
  readonly sizes: readonly { readonly quantisation: string; readonly gib: number }[];
}

export interface ModelCatalogue {
  /** Models whose name or task contains the text, by name. */
  search(text: string, task: string | undefined): readonly CatalogueModel[];
  /** Bytes of the smallest weights of a model by its name; 0: unknown. */
  leastBytes(name: string): number;
  /** Reads the operator's source now and then every hour. An unusable source keeps the known entries. */
  run(signal: AbortSignal): Promise<void>;
}

/** Bytes per parameter, with scales and the parts that stay in 16 bits. */
const bytesPerParameter: Readonly<Record<string, number>> = { bf16: 2, fp8: 1.05, int4: 0.62, mxfp4: 0.6 };
const refreshMs = 3_600_000;
const fetchMs = 15_000;
const maxBytes = 4 * 1024 * 1024;

const builtIn = new URL("model-catalogue.json", import.meta.url);

/** `source`: a file, or a URL with http or https; undefined: none. Throws if our own file is unusable. */
export async function openModelCatalogue(source: string | undefined, log: Logger): Promise<ModelCatalogue> {
  const own = readCatalogue(await readFile(builtIn, "utf8"));
  let models = tabulate(own);

  async function refresh(from: string): Promise<void> {
    const text = /^https?:\/\//.test(from) ? await download(from) : await readFile(from, "utf8");
    models = tabulate([...own, ...readCatalogue(text)]);
  }

  return {
    search(text, task) {
      const wanted = text.toLowerCase();
      return models.filter(
        (model) =>
          (task === undefined || model.task === task) &&
          (model.name.toLowerCase().includes(wanted) || model.task.includes(wanted)),
      );
    },
    leastBytes(name) {
      const sizes = models.find((model) => model.name === name)?.sizes ?? [];
      return sizes.length === 0 ? 0 : Math.min(...sizes.map(({ gib }) => gib)) * 1024 ** 3;
    },
    async run(signal) {
      if (source === undefined) return;
      await repeat(refreshMs, signal, () =>
        refresh(source).catch((error) => log.warn({ err: error }, "could not read the catalogue of models")),
      );
    },
  };
}

async function download(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(fetchMs) });
  if (!response.ok || !response.body) throw new Error(`the catalogue's server returned ${response.status}`);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body) {
    size += part.length;
    if (size > maxBytes) throw new Error(`the catalogue has more than ${maxBytes} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Throws with the place of the first error. */
export function readCatalogue(text: string): readonly CatalogueEntry[] {
  const value: unknown = JSON.parse(text);
  if (Value.Check(CatalogueFile, value)) return value.models;
  const [first] = Value.Errors(CatalogueFile, value);
  throw new Error(`catalogue of models: ${first?.instancePath || "/"} ${first?.message ?? "is invalid"}`);
}

/** The last entry of a name counts. */
function tabulate(entries: readonly CatalogueEntry[]): readonly CatalogueModel[] {
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  return [...byName.values()]
    .map((entry) => ({ revision: "main", inputs: ["text"], ...entry, sizes: sizesOf(entry) }))
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

function sizesOf({ parameters, weights = "bf16" }: CatalogueEntry): CatalogueModel["sizes"] {
  const names = weights === "bf16" ? ["bf16", "fp8", "int4"] : [weights];
  return names.map((quantisation) => ({
    quantisation,
    gib: Number(((parameters * 1e9 * (bytesPerParameter[quantisation] ?? 2)) / 1024 ** 3).toFixed(2)),
  }));
}
