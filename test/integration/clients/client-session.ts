// Runs one client's program and asks it for its features, one after the other.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { python } from "../../fakes/python.ts";
import { editedFile, editRequest } from "../../fakes/scripted-edit.ts";
import { testNpmHome } from "../../fakes/test-npm.ts";
import type { Client, FeatureName } from "./client-table.ts";

const root = join(import.meta.dirname, "../../..");
const mark = ">>> ";

export interface ClientSession {
  /** Throws what the client reports. */
  run(feature: FeatureName): Promise<unknown>;
  /** What the client printed besides its results. */
  log(): string;
  close(): void;
}

const homeOf = ({ home }: Client): string =>
  home === undefined ? root : home === "test-npm" ? testNpmHome : join(root, ".cache", home);
const pythonOf = (client: Client): string =>
  client.home === undefined ? python : join(homeOf(client), "bin", "python3");

/** Undefined: the package is not installed. */
export async function versionOf(client: Client): Promise<string | undefined> {
  if (client.registry === "npm") {
    const manifest = join(homeOf(client), "node_modules", client.package, "package.json");
    return existsSync(manifest) ? (JSON.parse(readFileSync(manifest, "utf8")).version as string) : undefined;
  }
  const script = `import importlib.metadata as m; print(m.version("${client.package}"))`;
  return promisify(execFile)(pythonOf(client), ["-c", script]).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}

export async function startClient(
  client: Client,
  environment: Readonly<Record<string, string>>,
): Promise<ClientSession> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-client-"));
  const file = join(folder, "greeting.txt");
  writeFileSync(file, editedFile.before);
  const isNpm = client.registry === "npm";
  const program = join(import.meta.dirname, isNpm ? "npm" : "python", client.program);
  const child = spawn(isNpm ? process.execPath : pythonOf(client), [program], {
    env: {
      ...process.env,
      // Nothing on another machine is used: what tries to is refused at once.
      HTTP_PROXY: "http://127.0.0.1:9",
      HTTPS_PROXY: "http://127.0.0.1:9",
      NO_PROXY: "127.0.0.1,localhost",
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
      HAYSTACK_TELEMETRY_ENABLED: "False",
      PYTHONDONTWRITEBYTECODE: "1",
      NPM_HOME: homeOf(client),
      EDIT_FILE: file,
      EDIT_REQUEST: editRequest(file),
      ...client.env,
      ...environment,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const lines = resultLines(child);
  const log: string[] = [];
  child.stderr.on("data", (part: Buffer) => log.push(part.toString()));
  const next = async (): Promise<{ readonly value?: unknown; readonly error?: string }> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the client's program ended:\n${log.join("").slice(-4_000)}`);
    return value;
  };
  const close = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await next();
  } catch (error) {
    close();
    throw error;
  }
  return {
    async run(feature) {
      child.stdin.write(`${feature}\n`);
      const { value, error } = await next();
      if (error !== undefined) throw new Error(`${feature}: ${error}`);
      return value;
    },
    log: () => log.join(""),
    close,
  };
}

async function* resultLines(child: ChildProcess): AsyncGenerator<{ value?: unknown; error?: string }> {
  if (!child.stdout) return;
  for await (const line of createInterface({ input: child.stdout }))
    if (line.startsWith(mark)) yield JSON.parse(line.slice(mark.length));
}
