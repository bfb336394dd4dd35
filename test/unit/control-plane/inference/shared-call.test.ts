import { expect, it, vi } from "vitest";
import { SharedCall } from "../../../../control-plane/inference/shared-call.ts";
import { BadFrame, frameKind } from "../../../../proto/frames.ts";

it("ends the connection for a frame that makes no sense, also where it was kept until the client took bytes again", () => {
  const frames = { send: vi.fn(), close: vi.fn() };
  const call = new SharedCall(frames as never, 1, {} as never, () => {});
  call.pause();
  call.take(99, Buffer.alloc(0));
  call.resume();
  expect(frames.close).toHaveBeenCalledExactlyOnceWith(expect.any(BadFrame));
});

it("ends the connection of an agent that sends more of a paused response than it may", () => {
  const call = new SharedCall({ send: vi.fn(), close: vi.fn() } as never, 1, {} as never, () => {});
  call.pause();
  const payload = Buffer.alloc(64 * 1024);
  const send = (bytes: number) => {
    for (let sent = 0; sent < bytes; sent += payload.length) call.take(frameKind.data, payload);
  };
  send(64 * 1024 * 1024);
  expect(() => send(64 * 1024 * 1024)).toThrow(BadFrame);
});
