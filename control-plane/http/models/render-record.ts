import { demoModelNamed } from "../../catalog/demo-models.ts";
import type { ModelPapers } from "../../catalog/model-meta.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { exampleOf, type TaskExample } from "./examples.ts";
import { fieldsIn } from "./field-info.ts";
import type { FieldInfo, ModelRecord } from "./model-record-schemas.ts";
import { type HourRates, pricingOf } from "./pricing.ts";
import { type Variant, type VariantKey, variantOf, variantsOf } from "./variants.ts";

export interface RecordView {
  readonly model: ServedModel;
  readonly papers: ModelPapers;
  readonly hourRates: HourRates;
  /** Scheme, host and port of this server. */
  readonly origin: string;
  /** The caller may change it. */
  readonly isOwner: boolean;
}

export function renderModelRecord({ model, papers, hourRates, origin, isOwner }: RecordView): ModelRecord {
  const { name, task, about } = model;
  const native = variantOf(task, "default") as Variant;
  const fields = fieldsIn(native.in, native.request);
  const path = inferencePath(name);
  return {
    model_name: name,
    type: task,
    reported_type: task,
    version: model.version,
    description: model.description,
    mf_description: model.description,
    mf_name: name,
    mf_title: name.slice(name.indexOf("/") + 1),
    tags: [...(about?.tags ?? [])],
    curl_inv: curlOf(model, origin),
    cmdline_inv: commandOf(model),
    txt_docs: inputInWords(path, fields),
    out_example: JSON.stringify(native.answer, undefined, 2),
    out_docs: outputInWords(native),
    mask_token: task === "fill-mask" ? "[MASK]" : "",
    quantization: model.quantization ?? "",
    expected: "",
    import_time: isoTime(model.createdAtMs),
    replaced_by: about?.replacedBy ?? "",
    featured: about?.isFeatured ?? false,
    public: model.isPublic || (about?.isShown ?? false),
    owner: isOwner,
    is_partner: false,
    is_custom_deployable: model.engine === "stoker",
    deprecated: secondsOf(about?.deprecatedAtMs),
    sunset: secondsOf(about?.sunsetAtMs),
    mmlu: 0,
    max_tokens: model.contextLength,
    max_output_tokens: model.contextLength,
    meta: {
      github_url: papers.githubUrl,
      paper_url: papers.paperUrl,
      license_url: papers.licenseUrl,
      cover_image: about?.coverImage ?? "",
      readme: papers.readme,
    },
    pricing: pricingOf(model, hourRates),
    in_schema: exactNumbers(native.in),
    out_schema: native.out,
    in_fields: exactNumbers([...fields]),
    schemas: variantsOf(task).map((key) => ({ key, url: schemaUrl(origin, name, key) })),
    doc_blocks: [
      { key: "openapi", url: `${origin}/openapi.json` },
      { key: "docs", url: `${origin}/docs` },
    ],
    short_doc_block: { key: "docs", url: `${origin}/docs` },
  };
}

export function renderSchema(variant: Variant & { readonly key: VariantKey }, name: string, origin: string) {
  const { key, request, answer } = variant;
  return {
    variant: { key, url: schemaUrl(origin, name, key) },
    fields_in: exactNumbers([...fieldsIn(variant.in, request)]),
    schema_in: { ...exactNumbers(variant.in), description: `POST ${variant.path}` },
    schema_out: { ...variant.out, examples: [answer] },
    schema_stream: { ...variant.stream },
  };
}

const schemaUrl = (origin: string, name: string, key: VariantKey): string =>
  `${origin}/models/${name.split("/").map(encodeURIComponent).join("/")}/schema/${key}`;

const secondsOf = (ms: number | null | undefined): number => Math.floor((ms ?? 0) / 1000);

function inputInWords(path: string, fields: readonly FieldInfo[]): string {
  const lines = fields.filter(({ parent }) => parent === "").map((field) => `- ${fieldInWords(field)}`);
  return [`POST ${path}`, "A JSON object, or a multipart form, with these fields:", ...lines].join("\n");
}

function fieldInWords({ name, ftype, description, allowed, default: usual, ...bounds }: FieldInfo): string {
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = bounds;
  const facts = [
    ftype,
    allowed && `one of ${allowed.join(", ")}`,
    minimum !== undefined && `at least ${minimum}`,
    exclusiveMinimum !== undefined && `above ${exclusiveMinimum}`,
    maximum !== undefined && `at most ${maximum}`,
    exclusiveMaximum !== undefined && `below ${exclusiveMaximum}`,
    usual !== null && `default ${JSON.stringify(usual)}`,
  ].filter((fact) => typeof fact === "string");
  return `${name} (${facts.join(", ")})${description ? `: ${description}` : ""}`;
}

function outputInWords({ out, stream }: Variant): string {
  const keys = Object.keys((out as { readonly properties?: object }).properties ?? {});
  const whole = `A JSON object with ${keys.join(", ")}.`;
  return stream ? `${whole} With \`stream\`, server-sent events, the last of them \`[DONE]\`.` : whole;
}

/**
 * Returns the same value in a form of which JSON.stringify writes every whole number exactly: it rounds bounds beyond 2^53, and
 * readers with larger integers would then use another bound.
 */
function exactNumbers<Value>(value: Value): Value {
  if (typeof value === "number")
    return Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (rawJson(BigInt(value).toString()) as Value)
      : value;
  if (Array.isArray(value)) return value.map(exactNumbers) as Value;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, exactNumbers(one)])) as Value;
}

/** https://tc39.es/proposal-json-parse-with-source/ */
const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

// Lines that a shell runs unchanged: the key comes from STOKER_API_KEY, the server from the record's own address.
type Model = Pick<ServedModel, "name" | "task">;

/** One second of silence as a WAV file on standard output: 16 kHz, 16 bits. Put your own file in its place. */
const silence =
  "{ printf 'RIFF\\044\\175\\000\\000WAVEfmt \\020\\000\\000\\000\\001\\000\\001\\000\\200\\076\\000\\000\\000\\175\\000\\000\\002\\000\\020\\000data\\000\\175\\000\\000'; " +
  "head -c 32000 /dev/zero; } | ";

const inferencePath = (name: string): string => `/v1/inference/${name.split("/").map(encodeURIComponent).join("/")}`;

/** `origin`: scheme, host and port of this server. */
function curlOf({ name, task }: Model, origin: string): string {
  const { request, file } = callOf({ name, task });
  const head = `curl -sS ${quoted(origin + inferencePath(name))} -H "Authorization: Bearer $STOKER_API_KEY"`;
  if (file !== undefined) return `${silence}${head} -F ${quoted(`${file}=@-;filename=${file}.wav`)}`;
  return `${head} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(request))}`;
}

function commandOf({ name, task }: Model): string {
  const { request, file } = callOf({ name, task });
  const fields = Object.entries(request).map(([field, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return ` -i ${quoted(`${field}=${text}`)}`;
  });
  const start = file === undefined ? "" : silence;
  return `${start}stoker infer -m ${quoted(name)}${fields.join("")}${file === undefined ? "" : ` -i ${file}=@-`}`;
}

function callOf({ name, task }: Model): Pick<TaskExample, "request" | "file"> {
  const usual = exampleOf(task);
  return { ...usual, request: demoModelNamed(name)?.example ?? usual.request };
}

/** As one word of a POSIX shell, whatever it holds. */
const quoted = (text: string): string => (/^[\w./:=@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
