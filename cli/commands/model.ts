import { InvalidArgumentError, Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { collect } from "../option-values.ts";
import type { Terminal } from "../terminal.ts";
import { addAlias } from "./model-alias.ts";

/** USD: per million tokens, per million characters, per second of audio, per image. */
interface Pricing {
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly input_characters?: number;
  readonly input_seconds?: number;
  readonly per_image_unit?: number;
}

type Catalogue = Responses["GET /v1/model-catalogue"];

type Model = Extract<Responses["GET /v1/models"], { object: "list" }>["data"][number];

type Summary = Responses["GET /models/list"][number];

type ModelRecord = Responses["GET /models/{model_name}"];

type Field = Responses["GET /models/{model_name}/schema/{variantKey}"]["fields_in"][number];

const recordPath = (name: string): string => `/models/${encodeURIComponent(modelName(name))}`;
const lists: Readonly<Record<string, string>> = { public: "/models/list", private: "/models/private/list" };

const noModels = "No models match. Models to deploy: `stoker model search`";

/** Prices of input and output. Models with another unit have no token price. */
function prices({ input_tokens: input, output_tokens: output, ...units }: Pricing): [string, string] {
  const { input_characters: characters, input_seconds: seconds, per_image_unit: image } = units;
  if (characters) return [`${characters} per 1M characters`, ""];
  // The price of one second is too small to read.
  if (seconds) return [`${Number((seconds * 1000).toFixed(9))} per 1000 seconds`, ""];
  if (image) return ["", `${image} per image`];
  return [String(input ?? ""), String(output ?? "")];
}

export function addModel(program: Command): void {
  const model = program.command("model").description("models and their metadata");

  model
    .command("list")
    .description("list models with prices in USD per million tokens, unless another unit is shown")
    .example("stoker model list --search qwen")
    .option("--search <text>", "only names that contain this text")
    .addOption(new Option("--visibility <which>", "which models").choices(["private", "public", "all"]).default("all"))
    .run(async (terminal, flags: { search?: string; visibility: string }) => {
      const text = flags.search?.toLowerCase() ?? "";
      const list = lists[flags.visibility];
      if (list !== undefined) {
        const found = await terminal.api.call<Summary[]>("GET", list);
        const matching = found.filter((one) => one.model_name.toLowerCase().includes(text));
        return terminal.rows(
          matching,
          { MODEL: "model_name", TASK: "type", PRICE: (one) => one.pricing.short },
          { empty: noModels },
        );
      }
      const { data } = await terminal.api.call<{ data: Model[] }>("GET", "/v1/models");
      terminal.rows(
        data.filter((one) => one.id.toLowerCase().includes(text)),
        {
          MODEL: "id",
          CONTEXT: ({ metadata }) => String(metadata?.context_length || ""),
          INPUT: ({ metadata }) => prices(metadata?.pricing ?? {})[0],
          OUTPUT: ({ metadata }) => prices(metadata?.pricing ?? {})[1],
        },
        { empty: noModels },
      );
    });

  model
    .command("get <name>")
    .alias("info")
    .description("show a model with price, version and example calls")
    .example("stoker model get org/model")
    .option("-v, --version-of <version>", "version of the model")
    .run(async (terminal, name: string, { versionOf }: { versionOf?: string }) => {
      const path = versionOf === undefined ? recordPath(name) : recordPath(`${modelName(name)}:${versionOf}`);
      terminal.show(await terminal.api.call<ModelRecord>("GET", path), recordText);
    });

  model
    .command("versions <name>")
    .description("list versions, newest first")
    .example("stoker model versions org/model")
    .run(async (terminal, name: string) => {
      const versions = await terminal.api.call<{ version: string; uploaded_at: string }[]>(
        "GET",
        `${recordPath(name)}/versions`,
      );
      terminal.rows(versions, { VERSION: "version", SINCE: "uploaded_at" });
    });

  model
    .command("schema <name> [variant]")
    .description("show the input fields of an API variant (default: native inference)")
    .example("stoker model schema org/model")
    .option("-v, --version-of <version>", "version of the model")
    .run(async (terminal, name: string, variant: string | undefined, flags: { versionOf?: string }) => {
      const query = flags.versionOf === undefined ? "" : `?${new URLSearchParams({ version: flags.versionOf })}`;
      const path = `${recordPath(name)}/schema/${encodeURIComponent(variant ?? "default")}${query}`;
      const schema = await terminal.api.call<{ fields_in: Field[] }>("GET", path);
      if (terminal.isStructured) return terminal.show(schema, String);
      terminal.rows(schema.fields_in, {
        FIELD: (field) => (field.parent === "" ? field.name : `${field.parent}.${field.name}`),
        TYPE: "ftype",
        DEFAULT: (field) => (field.default === null ? "" : JSON.stringify(field.default)),
        VALUES: (field) => allowedValues(field),
      });
    });

  addModelChanges(model);
}

async function searchHub(terminal: Terminal, text: string | undefined, flags: { task?: string }): Promise<void> {
  if (text === undefined) throw new CliError("Give words to search the hub for.", exitCode.wrongUsage);
  const query = new URLSearchParams({ search: text, ...flags });
  const { models } = await terminal.api.call<Responses["GET /v1/hub/models"]>("GET", `/v1/hub/models?${query}`);
  terminal.rows(
    models,
    {
      MODEL: "name",
      TASK: (one) => one.task ?? "",
      DOWNLOADS: (one) => one.downloads.toLocaleString("en-US"),
      FORMATS: (one) => one.formats.join(" "),
      GATED: (one) => (one.gated ? "yes" : ""),
    },
    { empty: "The hub finds nothing by these words." },
  );
}

function addModelChanges(model: Command): void {
  model
    .command("update <name>")
    .alias("meta")
    .alias("set")
    .description("change the metadata of your model; omitted options stay unchanged")
    .example('stoker model update ada/my-llm --description "Our support model" --public')
    .option("--description <text>", "short description")
    .option("--readme <file>", "Markdown file")
    .option("--github-url <url>", "URL of the code")
    .option("--paper-url <url>", "URL of the paper")
    .option("--license-url <url>", "URL of the licence")
    .option("--cover-image <url>", "URL of the cover image")
    .option("--tag <tag>", "tag; replaces all existing tags (repeatable)", collect)
    .option("--deprecated <day>", "date of deprecation (2027-01-31), or none", dayOrNone)
    .option("--sunset <day>", "date of removal, or none", dayOrNone)
    .option("--replaced-by <name>", "replacement model, or none")
    .addOption(new Option("--public", "show it to all accounts").conflicts("private"))
    .option("--private", "show it only to your account; ends a public offer")
    .run(async (terminal, name: string, flags: MetaFlags & PublicityFlags) => {
      const body = metaOf(flags);
      const isMeta = Object.keys(body).length > 0;
      if (!isMeta && !flags.public && !flags.private)
        throw new CliError("Nothing to change. Give at least one option.", exitCode.wrongUsage);
      const changed = isMeta ? await terminal.api.call<object>("POST", `${recordPath(name)}/meta`, body) : {};
      if (flags.public || flags.private) return setPublicity(terminal, name, flags);
      terminal.show(changed, () => name);
    });

  model
    .command("search [text]")
    .description("search models to deploy: size, context and licence of those that people run most")
    .example("stoker model search qwen --task text-generation")
    .option("--task <task>", "only this task, such as embeddings")
    .option("--hub", "search the model hub of the server instead of its catalogue")
    .run(async (terminal, text: string | undefined, { hub, ...flags }: { task?: string; hub?: true }) => {
      if (hub) return searchHub(terminal, text, flags);
      const query = new URLSearchParams({ search: text ?? "", ...flags });
      const { models } = await terminal.api.call<Catalogue>("GET", `/v1/model-catalogue?${query}`);
      terminal.rows(
        models,
        {
          MODEL: "name",
          TASK: "task",
          PARAMETERS: ({ parameters }) => (parameters < 1 ? `${Math.round(parameters * 1000)}M` : `${parameters}B`),
          CONTEXT: (one) => String(one.context_length),
          WEIGHTS: (one) => one.weights.map(({ quantisation, gib }) => `${quantisation} ${gib} GiB`).join(", "),
          LICENCE: ({ licence, gated }) => (gated ? `${licence} (gated)` : licence),
        },
        { empty: "No models match. Without a text all are listed: `stoker model search`" },
      );
      const [first] = models;
      if (first && !terminal.isStructured) terminal.progress(`Deploy one: \`stoker deploy ${first.name}\``);
    });

  addAlias(model);

  model
    .command("publicity <name>", { hidden: true })
    .description("make your model public or private")
    .addOption(new Option("--public", "show it to all accounts").conflicts("private"))
    .option("--private", "show it only to your account; ends a public offer")
    .run((terminal, name: string, flags: PublicityFlags) => {
      if (!flags.public && !flags.private) throw new CliError("Give --public or --private.", exitCode.wrongUsage);
      return setPublicity(terminal, name, flags);
    });

  model
    .command("delete <name>")
    .description("delete the deployments of your model")
    .example("stoker model delete ada/my-llm --of ALL")
    .confirm((_, name: string, { of }: { of: string }) =>
      of === "ALL" ? `Delete all deployments of ${name}?` : `Delete the deployments of version ${of} of ${name}?`,
    )
    .requiredOption("--of <version>", "version, or ALL")
    .run(async (terminal, name: string, flags: { of: string }) => {
      const path = `${recordPath(name)}?${new URLSearchParams({ version: flags.of })}`;
      terminal.show(await terminal.api.call<object>("DELETE", path), () => `${name} deleted`);
    });
}

interface PublicityFlags {
  readonly public?: boolean;
  readonly private?: boolean;
}

async function setPublicity(terminal: Terminal, name: string, flags: PublicityFlags): Promise<void> {
  const body = { public: flags.public === true };
  const shown = await terminal.api.call<object>("POST", `${recordPath(name)}/publicity`, body);
  terminal.show(shown, () => `${name} is now ${body.public ? "public" : "private"}`);
}

interface MetaFlags {
  readonly description?: string;
  readonly readme?: string;
  readonly githubUrl?: string;
  readonly paperUrl?: string;
  readonly licenseUrl?: string;
  readonly coverImage?: string;
  readonly tag?: readonly string[];
  readonly deprecated?: number | null;
  readonly sunset?: number | null;
  readonly replacedBy?: string;
}

function metaOf(flags: MetaFlags): object {
  const body = {
    description: flags.description,
    readme: flags.readme === undefined ? undefined : readLocalFile(flags.readme).toString(),
    github_url: flags.githubUrl,
    paper_url: flags.paperUrl,
    license_url: flags.licenseUrl,
    cover_image: flags.coverImage,
    tags: flags.tag,
    deprecated: flags.deprecated,
    sunset: flags.sunset,
    replaced_by: flags.replacedBy === "none" ? null : flags.replacedBy,
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

/** Unix seconds. */
function dayOrNone(text: string): number | null {
  if (text === "none") return null;
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms)) throw new InvalidArgumentError("Must be a date such as 2027-01-31, or none.");
  return ms / 1000;
}

/** A segment of the path: must not be empty. */
function modelName(text: string): string {
  if (text.trim() === "")
    throw new CliError("The model name must not be empty. `stoker model list` shows all names.", exitCode.wrongUsage);
  return text;
}

function recordText(one: ModelRecord): string {
  const lines = [
    `${one.model_name} (${one.type}), version ${one.version}`,
    one.description,
    `price: ${one.pricing.short}`,
    one.max_tokens === 0 ? "" : `context: ${one.max_tokens} tokens`,
    one.tags.length > 0 ? `tags: ${one.tags.join(", ")}` : "",
    one.deprecated === 0 ? "" : `deprecated${one.replaced_by === "" ? "" : `; use ${one.replaced_by}`}`,
    `API variants: ${one.schemas.map(({ key }) => key).join(", ")}`,
    "",
    onLines(one.curl_inv),
    one.cmdline_inv,
  ];
  return lines.filter((line, index) => line !== "" || index === lines.length - 3).join("\n");
}

/** A curl command with its options below each other. */
export function onLines(curl: string): string {
  const body = curl.indexOf(" -d ");
  const head = body < 0 ? curl : curl.slice(0, body);
  return head.replaceAll(" -H ", " \\\n  -H ") + (body < 0 ? "" : ` \\\n ${curl.slice(body)}`);
}

function allowedValues({ allowed, minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Field): string {
  if (allowed !== undefined) return allowed.join(", ");
  const facts = [
    minimum !== undefined && `>= ${minimum}`,
    exclusiveMinimum !== undefined && `> ${exclusiveMinimum}`,
    maximum !== undefined && `<= ${maximum}`,
    exclusiveMaximum !== undefined && `< ${exclusiveMaximum}`,
  ];
  return facts.filter((fact) => fact !== false).join(", ");
}
