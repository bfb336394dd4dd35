import { Duplex } from "node:stream";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { BadFrame, FrameSocket, frameKind, readFields, withFields } from "../../../proto/frames.ts";

interface Seen {
  readonly kind: number;
  readonly stream: number;
  readonly payload: string;
}

/** A frame socket over a pipe in memory: what it wrote, and what it was told. */
function open() {
  const written: Buffer[] = [];
  const pipe = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk);
      done();
    },
  });
  const seen: Seen[] = [];
  const ends: Error[] = [];
  const socket = new FrameSocket(pipe, Buffer.alloc(0), {
    frame: (kind, stream, payload) => void seen.push({ kind, stream, payload: payload.toString("latin1") }),
    drained() {},
    closed: (error) => void ends.push(error),
  });
  return { socket, pipe, seen, ends, bytes: () => Buffer.concat(written) };
}

afterEach(() => vi.useRealTimers());

describe("frames", () => {
  it("arrive as they were sent, however the network cuts them", async () => {
    const frame = fc.record({
      kind: fc.constantFrom(frameKind.data, frameKind.whole, frameKind.end),
      stream: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
      payload: fc.uint8Array({ maxLength: 40_000 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(frame, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1 }),
        async (frames, cuts) => {
          const sender = open();
          for (const { kind, stream, payload } of frames) sender.socket.send(kind, stream, Buffer.from(payload));
          sender.socket.flush();
          const receiver = open();
          const bytes = sender.bytes();
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const size = cuts[i % cuts.length] as number;
            receiver.pipe.push(bytes.subarray(at, at + size));
            at += size;
          }
          const wanted = frames.map((f) => ({ ...f, payload: Buffer.from(f.payload).toString("latin1") }));
          await vi.waitFor(() => expect(receiver.seen).toHaveLength(wanted.length), { timeout: 20_000 });
          expect(receiver.seen).toEqual(wanted);
          sender.socket.close(new Error("over"));
          receiver.socket.close(new Error("over"));
        },
      ),
      { numRuns: 40 },
    );
  });

  it("leave as one write per turn", async () => {
    const { socket, pipe, bytes } = open();
    const write = vi.spyOn(pipe, "write");
    for (let i = 0; i < 50; i++) socket.send(frameKind.data, i, Buffer.from("chunk"));
    await new Promise(setImmediate);
    expect(write).toHaveBeenCalledTimes(1);
    expect(bytes()).toHaveLength(50 * (9 + 5));
    socket.close(new Error("over"));
  });

  it("all leave before an orderly end, however slowly they are read", async () => {
    let taken = 0;
    const slow = new Duplex({
      read() {},
      write(chunk: Buffer, _encoding, done) {
        taken += chunk.length;
        setImmediate(done);
      },
    });
    const socket = new FrameSocket(slow, Buffer.alloc(0), { frame() {}, drained() {}, closed() {} });
    for (let i = 0; i < 100; i++) socket.send(frameKind.data, 1, Buffer.alloc(60_000));
    socket.end();
    socket.end();
    await vi.waitFor(() => expect(slow.writableFinished).toBe(true), { timeout: 20_000 });
    expect(taken).toBe(100 * (9 + 60_000));
    socket.close(new Error("over"));
  });

  it("end the connection, not the process, when the listener throws", async () => {
    const pipe = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    const ends: Error[] = [];
    new FrameSocket(pipe, Buffer.alloc(0), {
      frame() {
        throw new Error("a defect");
      },
      drained() {},
      closed: (error) => void ends.push(error),
    });
    pipe.push(Buffer.alloc(9, frameKind.data).fill(0, 0, 8));
    await vi.waitFor(() => expect(ends.map((error) => error.message)).toEqual(["a defect"]), { timeout: 20_000 });
  });

  it("end the connection instead of filling memory when they are longer than any of ours", async () => {
    const { pipe, ends } = open();
    const head = Buffer.alloc(9);
    head.writeUInt32BE(2 ** 31, 0);
    pipe.push(head);
    await vi.waitFor(() => expect(ends).toHaveLength(1), { timeout: 20_000 });
    expect(ends[0]).toBeInstanceOf(BadFrame);
  });
});

describe("a silent peer", () => {
  it("is asked for a sign of life and cut when it gives none", async () => {
    vi.useFakeTimers();
    const { bytes, ends } = open();
    await vi.advanceTimersByTimeAsync(5_001);
    expect(bytes()[8]).toBe(frameKind.ping);
    expect(ends).toEqual([]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(ends[0]?.message).toContain("silent");
  });

  it("answers a ping by itself", async () => {
    const { pipe, bytes } = open();
    const ping = Buffer.alloc(9);
    ping[8] = frameKind.ping;
    pipe.push(ping);
    await vi.waitFor(() => expect(bytes()[8]).toBe(frameKind.pong), { timeout: 20_000 });
  });
});

describe("fields before a payload", () => {
  it("are read with what follows them", () => {
    const { fields, rest } = readFields(
      withFields(["200", "content-type", "text/plain"], Buffer.from("body\nwith lines")),
    );
    expect(fields).toEqual(["200", "content-type", "text/plain"]);
    expect(rest.toString()).toBe("body\nwith lines");
  });

  it("are refused beyond their frame", () => {
    for (const bytes of [Buffer.alloc(3), Buffer.from([0, 0, 0, 9, 65])])
      expect(() => readFields(bytes)).toThrow(BadFrame);
  });
});
