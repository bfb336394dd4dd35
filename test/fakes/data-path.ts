// A real ingress with a real spool in a folder of its own, and a client that speaks to it as the gateway does.
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { Ingress, type IngressOptions } from "../../agent/ingress/ingress.ts";
import type { UsageSpool } from "../../agent/ingress/spool.ts";
import type { RouteTarget } from "../../agent/reconcile/ports.ts";
import { openState } from "../../agent/state/open-state.ts";
import type { UpstreamHeaders } from "../../control-plane/inference/upstream-call.ts";
import { createUpstreams } from "../../control-plane/inference/upstreams.ts";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";
import { decodeUsage, refusalHeader, type UsageFigures, usageHeader } from "../../proto/usage.ts";
import { plainDial } from "./peers.ts";
import { atWorkerEnd } from "./worker-end.ts";

export const ticketKey = Buffer.alloc(32, 7);
export const instanceId = "instance00000001" as InstanceId;
export const deployId = "deployment000001" as DeploymentId;

let serial = 0;

export function ticketFor(change: Partial<Ticket> = {}): Ticket {
  serial += 1;
  const now = Date.now();
  return {
    requestId: `request${String(serial).padStart(17, "0")}`,
    attempt: 1,
    hostId: "host000000000001",
    instanceId,
    deployId,
    admittedAtMs: now,
    expiresAtMs: now + 60_000,
    account: "u:account000001",
    keyId: "key1",
    replicaId: "replica1",
    model: "fake/model",
    leaseIds: ["lease1"],
    hold: "1000000",
    permits: 1,
    inputTokensBound: 40,
    inputTokensEstimate: 10,
    maxTokens: 100,
    stream: true,
    usage: "merge",
    rates: ["1000000000", "500000000", "2000000000"],
    priceVersion: 1,
    ...change,
  };
}

export interface DataPath {
  readonly ingress: Ingress;
  readonly spool: UsageSpool;
  readonly port: number;
  readonly folder: string;
  target(change?: Partial<RouteTarget>): void;
  close(): Promise<void>;
}

export async function startDataPath(origin: string, options: Partial<IngressOptions> = {}): Promise<DataPath> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-ingress-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const forget = atWorkerEnd(remove);
  const log = options.log ?? pino({ level: "silent" });
  const state = options.spool ? undefined : await openState(join(folder, "state.db"), log);
  const spool = options.spool ?? (state as NonNullable<typeof state>).spool;
  const ingress = new Ingress({
    host: "127.0.0.1",
    port: 0,
    hostId: "host000000000001" as HostId,
    keys: () => [ticketKey],
    nodeEpoch: () => 3n,
    controlTimeMs: Date.now,
    spool,
    logs: async () => [],
    log,
    ...options,
  });
  let target: RouteTarget = { instanceId, deployId, origin, maxBatchSize: 8, ready: true, draining: false };
  ingress.setTargets([target]);
  const { port } = await ingress.listen();
  return {
    ingress,
    spool,
    port,
    folder,
    target: (change = {}) => {
      target = { ...target, ...change };
      ingress.setTargets([target]);
    },
    close: async () => {
      await ingress.close(0);
      await state?.close();
      remove();
      forget();
    },
  };
}

export interface Reply {
  readonly status: number;
  readonly headers: UpstreamHeaders;
  readonly text: string;
  readonly bytes: Buffer;
  /** From the header or the trailer. */
  readonly usage: UsageFigures | undefined;
  readonly refusal: string | undefined;
  /** False when the connection broke before the end. */
  readonly complete: boolean;
}

export type Carrier = "shared" | "alone";
export const carriers: readonly Carrier[] = ["shared", "alone"];

export interface Call {
  readonly ticket?: Partial<Ticket>;
  readonly body?: Readonly<Record<string, unknown>>;
  /** Replaces the signed ticket. */
  readonly header?: string;
  readonly path?: string;
  /** Instead of the JSON body. */
  readonly raw?: { readonly contentType: string; readonly body: Buffer };
  readonly method?: string;
  /** Called with each piece as it comes. */
  readonly onData?: (piece: Buffer, answer: { pause(): void; resume(): void }) => void;
  /** `shared`, as the gateway asks; `alone`: over a connection of its own. Default: shared, for inference. */
  readonly carrier?: Carrier | undefined;
  readonly signal?: AbortSignal;
}

export function openCall(port: number, call: Call = {}): { ticket: Ticket; reply: Promise<Reply> } {
  const ticket = ticketFor(call.ticket);
  const json = JSON.stringify({
    model: ticket.model,
    messages: [{ role: "user", content: "one two three" }],
    stream: ticket.stream,
    ...(ticket.stream ? { stream_options: { include_usage: true } } : {}),
    ...call.body,
  });
  const body = call.raw?.body ?? Buffer.from(json);
  const path = call.path ?? `/i/${ticket.instanceId}/v1/chat/completions`;
  const header = call.header ?? signTicket(ticket, ticketKey);
  const isShared = (call.carrier ?? "shared") === "shared" && path.includes("/v1/");
  const reply = isShared ? askShared(port, path, header, body, call) : askAlone(port, path, header, body, call);
  return { ticket, reply };
}

const upstreams = createUpstreams(plainDial);

function askShared(port: number, path: string, ticket: string, body: Buffer, call: Call): Promise<Reply> {
  return new Promise<Reply>((resolve, reject) => {
    const pieces: Buffer[] = [];
    let status = 0;
    let headers: UpstreamHeaders = {};
    const end = (trailers: UpstreamHeaders, complete: boolean) => {
      const usage = (headers[usageHeader] ?? trailers[usageHeader]) as string | undefined;
      resolve({
        status,
        headers,
        bytes: Buffer.concat(pieces),
        text: Buffer.concat(pieces).toString(),
        usage: usage === undefined ? undefined : decodeUsage(usage),
        refusal: headers[refusalHeader] as string | undefined,
        complete,
      });
    };
    upstreams.send(
      { origin: `http://127.0.0.1:${port}`, hostId: "host000000000001" as HostId },
      { path, ticket, body, ...(call.raw && { contentType: call.raw.contentType }) },
      {
        onRequestStart: (sent) => {
          const leave = () => {
            sent.abort(new Error("the client went away"));
            reject(new Error("aborted"));
          };
          if (call.signal?.aborted) leave();
          else call.signal?.addEventListener("abort", leave, { once: true });
        },
        onResponseStart: (_, code, given) => {
          status = code;
          headers = given;
        },
        onResponseData: (sent, piece) => {
          pieces.push(piece);
          call.onData?.(piece, sent);
        },
        onResponseEnd: (_, trailers) => end(trailers, true),
        onResponseError: (_, error) => (status === 0 ? reject(error) : end({}, false)),
      },
    );
  });
}

function askAlone(port: number, path: string, ticket: string, body: Buffer, call: Call): Promise<Reply> {
  return new Promise<Reply>((resolve, reject) => {
    const req = request({
      host: "127.0.0.1",
      port,
      method: call.method ?? "POST",
      path,
      headers: {
        "content-type": call.raw?.contentType ?? "application/json",
        "x-stoker-ticket": ticket,
        ...((call.method ?? "POST") === "POST" ? { "content-length": body.length } : {}),
      },
      ...(call.signal ? { signal: call.signal } : {}),
    });
    req.on("error", reject);
    req.on("response", (res) => {
      const pieces: Buffer[] = [];
      res.on("data", (piece: Buffer) => {
        pieces.push(piece);
        call.onData?.(piece, res);
      });
      res.on("error", () => {});
      res.on("close", () => {
        const usage = (res.headers[usageHeader] ?? res.trailers[usageHeader]) as string | undefined;
        resolve({
          status: res.statusCode ?? 0,
          headers: res.headers,
          bytes: Buffer.concat(pieces),
          text: Buffer.concat(pieces).toString(),
          usage: usage === undefined ? undefined : decodeUsage(usage),
          refusal: res.headers[refusalHeader] as string | undefined,
          complete: res.complete,
        });
      });
    });
    req.end((call.method ?? "POST") === "POST" ? body : undefined);
  });
}

export const call = (port: number, given: Call = {}): Promise<Reply> => openCall(port, given).reply;
