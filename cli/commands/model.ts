import { type Command, InvalidArgumentError, Option } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { readLocalFile } from "../local-file.ts";
import { collect } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

/** USD: per million tokens, per million characters, per second of audio, per image. */
interface Pricing {
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly input_characters?: number;
  readonly input_seconds?: number;
  readonly per_image_unit?: number;
}

interface Model {
  readonly id: string;
  readonly metadata?: {
    readonly context_length?: number;
    readonly pricing?: Pricing;
  } | null;
}

interface Summary {
  readonly model_name: string;
  readonly type: string;
  readonly max_tokens: number | null;
  readonly pricing: { readonly short: string };
  readonly replaced_by: string | null;
}

interface ModelRecord extends Summary {
  readonly version: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly public: boolean;
  readonly deprecated: number | null;
  readonly schemas: readonly { readonly key: string }[];
  readonly curl_inv: string;
  readonly cmdline_inv: string;
}

interface Field {
  readonly name: string;
  readonly ftype: string;
  readonly parent: string | null;
  readonly default: unknown;
  readonly allowed: readonly unknown[] | null;
  readonly minimum: number | null;
  readonly exclusiveMinimum: number | null;
  readonly maximum: number | null;
  readonly exclusiveMaximum: number | null;
}

const recordPath = (name: string): string => `/models/${encodeURIComponent(modelName(name))}`;
const lists: Readonly<Record<string, string>> = { public: "/models/list", private: "/models/private/list" };

/** Input and output. What is paid by another unit has no price of tokens, and is not free. */
function prices({ input_tokens: input, output_tokens: output, ...units }: Pricing): [string, string] {
  const { input_characters: characters, input_seconds: seconds, per_image_unit: image } = units;
  if (characters) return [`${characters} per 1M characters`, ""];
  // A single second's price is too small a number to read.
  if (seconds) return [`${Number((seconds * 1000).toFixed(9))} per 1000 seconds`, ""];
  if (image) return ["", `${image} per image`];
  return [String(input ?? ""), String(output ?? "")];
}

export function addModel(program: Command): void {
  const model = program.command("model").description("models that can be called");

  model
    .command("list")
    .description("all of them, with prices in USD per million tokens where no other unit is named")
    .option("--search <text>", "only names that contain it")
    .addOption(new Option("--visibility <which>", "whose").choices(["private", "public", "all"]).default("all"))
    .action(async (flags: { search?: string; visibility: string }, command: Command) => {
      const terminal = openTerminal(command);
      const wanted = flags.search?.toLowerCase() ?? "";
      const list = lists[flags.visibility];
      if (list !== undefined) {
        const found = await terminal.api.call<Summary[]>("GET", list);
        const meant = found.filter((one) => one.model_name.toLowerCase().includes(wanted));
        const row = (one: Summary) => [one.model_name, one.type, one.pricing.short];
        return terminal.rows(meant, ["MODEL", "TASK", "PRICE"], row);
      }
      const { data } = await terminal.api.call<{ data: Model[] }>("GET", "/v1/models");
      terminal.rows(
        data.filter((one) => one.id.toLowerCase().includes(wanted)),
        ["MODEL", "CONTEXT", "INPUT", "OUTPUT"],
        ({ id, metadata }) => [id, String(metadata?.context_length || ""), ...prices(metadata?.pricing ?? {})],
      );
    });

  model
    .command("info <name>")
    .alias("get")
    .description("the record of one: its price, its versions' name, how it is called")
    .option("-v, --version-of <version>", "of this version")
    .action(async (name: string, { versionOf }: { versionOf?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = versionOf === undefined ? recordPath(name) : recordPath(`${modelName(name)}:${versionOf}`);
      terminal.show(await terminal.api.call<ModelRecord>("GET", path), inWords);
    });

  model
    .command("versions <name>")
    .description("its versions, the newest first")
    .action(async (name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const versions = await terminal.api.call<{ version: string; uploaded_at: string }[]>(
        "GET",
        `${recordPath(name)}/versions`,
      );
      terminal.rows(versions, ["VERSION", "SINCE"], (one) => [one.version, one.uploaded_at]);
    });

  model
    .command("schema <name> [variant]")
    .description("the fields of one way to ask it (default: native inference)")
    .option("-v, --version-of <version>", "of this version")
    .action(async (name: string, variant = "default", flags: { versionOf?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const query = flags.versionOf === undefined ? "" : `?${new URLSearchParams({ version: flags.versionOf })}`;
      const path = `${recordPath(name)}/schema/${encodeURIComponent(variant)}${query}`;
      const schema = await terminal.api.call<{ fields_in: Field[] }>("GET", path);
      if (terminal.json) return terminal.show(schema, String);
      terminal.rows(schema.fields_in, ["FIELD", "TYPE", "DEFAULT", "VALUES"], (field) => [
        field.parent === null ? field.name : `${field.parent}.${field.name}`,
        field.ftype,
        field.default === null ? "" : JSON.stringify(field.default),
        valuesInWords(field),
      ]);
    });

  model
    .command("meta <name>")
    .alias("set")
    .description("describe a model of your own; what is left out stays")
    .option("--description <text>", "one or two sentences")
    .option("--readme <file>", "a file of Markdown")
    .option("--github-url <url>", "its code")
    .option("--paper-url <url>", "its paper")
    .option("--license-url <url>", "its licence")
    .option("--cover-image <url>", "a picture")
    .option("--tag <tag>", "again for each; replaces all", collect)
    .option("--deprecated <day>", "since when it is (2027-01-31), or none", dayOrNone)
    .option("--sunset <day>", "when it will be gone, or none", dayOrNone)
    .option("--replaced-by <name>", "the model to use in its place, or none")
    .action(async (name: string, flags: MetaFlags, command: Command) => {
      const terminal = openTerminal(command);
      const body = metaOf(flags);
      if (Object.keys(body).length === 0) throw new CliError("Nothing is given to be written.", exitCode.wrongUsage);
      terminal.show(await terminal.api.call<object>("POST", `${recordPath(name)}/meta`, body), () => name);
    });

  model
    .command("publicity <name>")
    .description("show the record of a model of your own to every account, or to nobody else")
    .addOption(new Option("--public", "to every account").conflicts("private"))
    .option("--private", "to nobody else; an offer of it ends")
    .action(async (name: string, flags: { public?: boolean; private?: boolean }, command: Command) => {
      if (!flags.public && !flags.private) throw new CliError("Give --public or --private.", exitCode.wrongUsage);
      const terminal = openTerminal(command);
      const body = { public: flags.public === true };
      const shown = await terminal.api.call<object>("POST", `${recordPath(name)}/publicity`, body);
      terminal.show(shown, () => `${name} is ${body.public ? "public" : "private"}`);
    });

  model
    .command("delete <name>")
    .description("end the deployments of a model of your own")
    .requiredOption("--of <version>", "a version, or ALL")
    .action(async (name: string, flags: { of: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `${recordPath(name)}?${new URLSearchParams({ version: flags.of })}`;
      terminal.show(await terminal.api.call<object>("DELETE", path), () => `${name} is deleted`);
    });
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

/** In unix seconds. */
function dayOrNone(text: string): number | null {
  if (text === "none") return null;
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms)) throw new InvalidArgumentError("Give a day such as 2027-01-31, or none.");
  return ms / 1000;
}

/** A path segment of its own: an empty one would be another address. */
function modelName(text: string): string {
  if (text.trim() === "")
    throw new CliError("Give a model's name; `stoker model list` shows them.", exitCode.wrongUsage);
  return text;
}

function inWords(one: ModelRecord): string {
  const lines = [
    `${one.model_name} (${one.type}), version ${one.version}`,
    one.description,
    `price: ${one.pricing.short}`,
    one.max_tokens === null ? "" : `context: ${one.max_tokens} tokens`,
    one.tags.length > 0 ? `tags: ${one.tags.join(", ")}` : "",
    one.deprecated === null ? "" : `deprecated${one.replaced_by === null ? "" : `; use ${one.replaced_by}`}`,
    `asked by: ${one.schemas.map(({ key }) => key).join(", ")}`,
    "",
    one.curl_inv,
    one.cmdline_inv,
  ];
  return lines.filter((line, index) => line !== "" || index === lines.length - 3).join("\n");
}

function valuesInWords({ allowed, minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Field): string {
  if (allowed !== null) return allowed.join(", ");
  const facts = [
    minimum !== null && `>= ${minimum}`,
    exclusiveMinimum !== null && `> ${exclusiveMinimum}`,
    maximum !== null && `<= ${maximum}`,
    exclusiveMaximum !== null && `< ${exclusiveMaximum}`,
  ];
  return facts.filter((fact) => fact !== false).join(", ");
}
