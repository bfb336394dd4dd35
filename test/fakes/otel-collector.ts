// The OpenTelemetry collector, built from test/fixtures/otelcol where Go is installed; elsewhere a receiver of our own.
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";
import { type ReceivedSpan, startOtlpReceiver } from "./otlp-receiver.ts";
import { atWorkerEnd } from "./worker-end.ts";

const root = join(import.meta.dirname, "../..");
const source = join(root, "test/fixtures/otelcol");
/** A first build downloads the collector's modules. */
const buildMs = 900_000;

export interface Collector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string;
  readonly isReal: boolean;
  /** Spans exported so far. */
  spans(): readonly ReceivedSpan[];
  close(): Promise<void>;
}

export async function startCollector(): Promise<Collector> {
  const program = await builtCollector();
  if (program) return startReal(program);
  const receiver = await startOtlpReceiver();
  return { ...receiver, isReal: false, spans: () => receiver.spans };
}

/** Undefined: no Go, or its modules cannot be had. */
async function builtCollector(): Promise<string | undefined> {
  if (spawnSync("go", ["version"]).status !== 0) return undefined;
  const digest = createHash("sha256");
  for (const name of ["go.mod", "go.sum", "main.go"]) digest.update(readFileSync(join(source, name)));
  const folder = join(root, ".cache/otelcol", digest.digest("hex").slice(0, 16));
  const program = join(folder, "otelcol");
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const draft = `${program}.${process.pid}`;
  try {
    await promisify(execFile)("go", ["build", "-o", draft, "."], { cwd: source, timeout: buildMs });
  } catch (error) {
    console.log(`the collector was not built: ${(error as Error).message.slice(0, 500)}`);
    rmSync(draft, { force: true });
    return undefined;
  }
  renameSync(draft, program);
  return program;
}

async function startReal(program: string): Promise<Collector> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-otelcol-"));
  const file = join(folder, "traces.jsonl");
  const port = await freePort();
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { file: { path: file, flush_interval: "100ms" } },
    service: {
      pipelines: { traces: { receivers: ["otlp"], exporters: ["file"] } },
      telemetry: { metrics: { level: "none" } },
    },
  };
  // JSON is YAML.
  writeFileSync(join(folder, "config.yaml"), JSON.stringify(config));
  const child: ChildProcess = spawn(program, ["--config", `file:${join(folder, "config.yaml")}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  atWorkerEnd(() => child.kill("SIGKILL"));
  await new Promise<void>((resolve, reject) => {
    let said = "";
    child.stderr?.on("data", (piece: Buffer) => {
      said += piece;
      if (said.includes("Everything is ready")) resolve();
    });
    child.once("exit", () => reject(new Error(`the collector ended: ${said.slice(-2000)}`)));
  });
  return {
    endpoint: `http://127.0.0.1:${port}`,
    isReal: true,
    spans: () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").flatMap(spansOfLine) : []),
    async close() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface JsonValue {
  readonly stringValue?: string;
  readonly intValue?: string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values?: readonly JsonValue[] };
}

interface JsonAttribute {
  readonly key: string;
  readonly value: JsonValue;
}

interface JsonSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly JsonAttribute[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code?: number };
}

interface JsonLine {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly JsonAttribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly JsonSpan[] }[];
  }[];
}

/** The last line may be incomplete. */
function spansOfLine(line: string): ReceivedSpan[] {
  if (!line.endsWith("}")) return [];
  return (JSON.parse(line) as JsonLine).resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(attributesOf(resource.attributes)["service.name"]);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => spanOf(span, service)));
  });
}

const attributesOf = (pairs: readonly JsonAttribute[] = []): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, plainValue(value)]));

function plainValue({ stringValue, intValue, doubleValue, boolValue, arrayValue }: JsonValue): unknown {
  if (arrayValue) return (arrayValue.values ?? []).map(plainValue);
  return stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue;
}

const spanOf = (span: JsonSpan, service: string): ReceivedSpan => ({
  service,
  name: span.name,
  traceId: span.traceId,
  spanId: span.spanId,
  parentSpanId: span.parentSpanId ?? "",
  traceState: span.traceState ?? "",
  kind: span.kind,
  startNs: BigInt(span.startTimeUnixNano),
  endNs: BigInt(span.endTimeUnixNano),
  attributes: attributesOf(span.attributes),
  links: span.links ?? [],
  status: span.status?.code ?? 0,
});
