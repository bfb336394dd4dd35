import { randomUUID } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { KeptSink } from "../../../../control-plane/http/inference/kept-sink.ts";
import { ResponseBuffer } from "../../../../control-plane/inference/response-buffer.ts";

const piece = Buffer.alloc(10);

/** An answer on its way, and whether its instance is paused. */
function answerIn(buffer: ResponseBuffer, account: string = randomUUID()) {
  const sink = new KeptSink(buffer, account);
  const flow: { isPaused: boolean; dropped?: Error } = { isPaused: false };
  sink.listener = {
    clientGone() {},
    dropped: (why) => {
      flow.dropped = why;
    },
    stalled: () => {
      flow.isPaused = true;
    },
    drained: () => {
      flow.isPaused = false;
    },
  };
  sink.begin(200, "text/plain");
  return Object.assign(flow, { sink });
}

describe("answers that are kept", () => {
  it("pause beyond the buffer, but for the one that came first, and go on in their order when it has ended", () => {
    const buffer = new ResponseBuffer(25);
    const [first, second, third] = [answerIn(buffer), answerIn(buffer), answerIn(buffer)];
    for (const { sink } of [first, second, third]) sink.write(piece);
    expect([first.isPaused, second.isPaused, third.isPaused]).toEqual([false, false, true]);
    first.sink.write(piece);
    first.sink.write(piece);
    second.sink.write(piece);
    expect([first.isPaused, second.isPaused, third.isPaused]).toEqual([false, true, true]);
    first.sink.end();
    expect(first.sink.answer?.body).toHaveLength(30);
    expect(buffer.heldBytes).toBe(60);
    // More is whole than there is buffer for: it must go first.
    expect([second.isPaused, third.isPaused]).toEqual([true, true]);
    first.sink.letGo();
    // 30 bytes are held: the second is now the first.
    expect([second.isPaused, third.isPaused]).toEqual([false, true]);
    second.sink.end();
    second.sink.letGo();
    second.sink.letGo();
    expect([buffer.heldBytes, third.isPaused]).toEqual([10, false]);
    third.sink.letGo();
    expect(buffer.heldBytes).toBe(0);
  });

  it("that are paused for too long are given up, say why, and hold nothing", async () => {
    const buffer = new ResponseBuffer(15, 1);
    const [first, second] = [answerIn(buffer), answerIn(buffer)];
    first.sink.write(piece);
    second.sink.write(piece);
    expect(second.isPaused).toBe(true);
    await vi.waitFor(() => expect(second.dropped).toMatchObject({ code: "answers_full" }), { timeout: 20_000 });
    expect([second.sink.answer, first.dropped, buffer.heldBytes]).toEqual([undefined, undefined, 10]);
  });

  it("that are whole and not taken do not keep others from coming", () => {
    const buffer = new ResponseBuffer(25);
    const [unread, coming] = [answerIn(buffer), answerIn(buffer)];
    unread.sink.write(piece);
    unread.sink.write(piece);
    coming.sink.write(piece);
    expect(coming.isPaused).toBe(true);
    unread.sink.end();
    expect(coming.isPaused).toBe(false);
    coming.sink.write(piece);
    expect(coming.isPaused).toBe(false);
  });

  it("of one account hold half of the buffer, and pause nobody else", () => {
    const buffer = new ResponseBuffer(100);
    const own = Array.from({ length: 6 }, () => answerIn(buffer, "a"));
    for (const { sink } of own) sink.write(piece);
    expect(own.map(({ isPaused }) => isPaused)).toEqual([false, false, false, false, false, true]);
    own[0]?.sink.write(piece);
    expect(own[0]?.isPaused).toBe(false);
    const other = answerIn(buffer);
    other.sink.write(piece);
    other.sink.write(piece);
    expect(other.isPaused).toBe(false);
    for (const { sink } of own.slice(0, 5)) sink.end();
    // More than its half is whole and waits for its readers.
    expect(own[5]?.isPaused).toBe(true);
    other.sink.write(piece);
    expect(other.isPaused).toBe(false);
    own[0]?.sink.letGo();
    expect(own[5]?.isPaused).toBe(false);
    for (const { sink } of [...own, other]) sink.letGo();
    expect(buffer.heldBytes).toBe(0);
  });

  it("leave no buffer for more work while they hold half of it", () => {
    const buffer = new ResponseBuffer(30);
    const one = answerIn(buffer);
    one.sink.whole(200, "text/plain", Buffer.alloc(16));
    expect(buffer.hasCapacity).toBe(false);
    one.sink.letGo();
    expect(buffer.hasCapacity).toBe(true);
  });

  it("that are larger than one may be are dropped", () => {
    const buffer = new ResponseBuffer(100);
    const sink = new KeptSink(buffer, "a", 15);
    sink.write(piece);
    sink.write(piece);
    sink.end();
    expect([sink.isTooLarge, sink.answer, buffer.heldBytes]).toEqual([true, undefined, 0]);
  });
});
