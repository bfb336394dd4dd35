// Receives OTLP traces over HTTP as protobuf, as a collector does, and decodes the fields that tests read. Field numbers:
// opentelemetry-proto, trace.proto and common.proto.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: a root. */
  readonly parentSpanId: string;
  readonly traceState: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** 2: error. */
  readonly status: number;
}

export interface OtlpReceiver {
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  readonly resources: readonly Readonly<Record<string, unknown>>[];
  readonly headers: readonly IncomingHttpHeaders[];
  close(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const resources: Readonly<Record<string, unknown>>[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      headers.push(request.headers);
      const isTraces = request.method === "POST" && request.url === "/v1/traces";
      if (isTraces) {
        const read = tracesOf(Buffer.concat(pieces));
        spans.push(...read.spans);
        resources.push(...read.resources);
      }
      response.writeHead(isTraces ? 200 : 404, { "content-type": "application/x-protobuf" }).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    resources,
    headers,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

type Value = bigint | Buffer;
/** Values by field number. */
type Fields = ReadonlyMap<number, readonly Value[]>;

function fieldsOf(bytes: Buffer): Fields {
  const fields = new Map<number, Value[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new RangeError("a message ends within a number");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new RangeError("a message ends within a field");
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const wire = key & 7;
    const value =
      wire === 0 ? varint() : wire === 1 ? take(8).readBigUInt64LE() : take(wire === 5 ? 4 : Number(varint()));
    const number = key >> 3;
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((value) => fieldsOf(value as Buffer));
const bytesOf = (fields: Fields, number: number) => (fields.get(number)?.[0] ?? Buffer.alloc(0)) as Buffer;
const text = (fields: Fields, number: number) => bytesOf(fields, number).toString();
const integer = (fields: Fields, number: number) => BigInt((fields.get(number)?.[0] ?? 0n) as bigint);

function plainValue(any: Fields): unknown {
  if (any.has(1)) return text(any, 1);
  if (any.has(2)) return integer(any, 2) === 1n;
  if (any.has(3)) return Number(integer(any, 3));
  if (any.has(4)) {
    const bits = Buffer.alloc(8);
    bits.writeBigUInt64LE(integer(any, 4));
    return bits.readDoubleLE();
  }
  return messages(any, 5).flatMap((list) => messages(list, 1).map(plainValue));
}

const attributesOf = (fields: Fields, number: number): Record<string, unknown> =>
  Object.fromEntries(
    messages(fields, number).map((pair) => [text(pair, 1), plainValue(messages(pair, 2)[0] as Fields)]),
  );

function tracesOf(body: Buffer) {
  const groups = messages(fieldsOf(body), 1).map((group) => {
    const resource = attributesOf(messages(group, 1)[0] as Fields, 1);
    const spans = messages(group, 2).flatMap((scope) => messages(scope, 2));
    return { resource, spans: spans.map((span) => spanOf(span, String(resource["service.name"]))) };
  });
  return { spans: groups.flatMap(({ spans }) => spans), resources: groups.map(({ resource }) => resource) };
}

const spanOf = (span: Fields, service: string): ReceivedSpan => ({
  service,
  name: text(span, 5),
  traceId: bytesOf(span, 1).toString("hex"),
  spanId: bytesOf(span, 2).toString("hex"),
  parentSpanId: bytesOf(span, 4).toString("hex"),
  traceState: text(span, 3),
  kind: Number(integer(span, 6)),
  startNs: integer(span, 7),
  endNs: integer(span, 8),
  attributes: attributesOf(span, 9),
  links: messages(span, 13).map((link) => ({
    traceId: bytesOf(link, 1).toString("hex"),
    spanId: bytesOf(link, 2).toString("hex"),
  })),
  status: Number(integer(messages(span, 15)[0] ?? new Map(), 3)),
});
