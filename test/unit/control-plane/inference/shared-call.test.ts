import { expect, it, vi } from "vitest";
import { SharedCall } from "../../../../control-plane/inference/shared-call.ts";
import { BadFrame } from "../../../../proto/frames.ts";

it("ends the connection for a frame that makes no sense, also where it was kept until the client took bytes again", () => {
  const frames = { send: vi.fn(), close: vi.fn() };
  const call = new SharedCall(frames as never, 1, {} as never, () => {});
  call.pause();
  call.take(99, Buffer.alloc(0));
  call.resume();
  expect(frames.close).toHaveBeenCalledExactlyOnceWith(expect.any(BadFrame));
});
