import { expect, it } from "vitest";
import type { Voice, VoiceId } from "../../../../control-plane/assets/store.ts";
import { createVoiceBook } from "../../../../control-plane/assets/voices.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { adasVoice } from "../../../fakes/voices.ts";

const ada = "u:ada" as AccountId;

it("does not cache a read during a change notification", async () => {
  let tell: (account: string) => void = () => {};
  const readings: ((voices: readonly Voice[]) => void)[] = [];
  const find = createVoiceBook(
    { voices: () => new Promise((resolve) => readings.push(resolve)) },
    {
      on: (_topic, handler) => {
        tell = handler;
      },
    },
  );
  const first = find(ada, adasVoice.id);
  tell(ada);
  readings[0]?.([adasVoice]);
  expect(await first).toBe(adasVoice);
  const second = find(ada, adasVoice.id);
  expect(second).toBeInstanceOf(Promise);
  readings[1]?.([]);
  expect(await second).toBeUndefined();
});

it("prefers an id to a name", async () => {
  const named: Voice = { ...adasVoice, id: "other" as VoiceId, name: adasVoice.id };
  const find = createVoiceBook({ voices: () => Promise.resolve([named, adasVoice]) }, { on: () => {} });
  expect(await find(ada, adasVoice.id)).toBe(adasVoice);
});

it("serves a model's own voices while the database is unavailable, but no account's voices", async () => {
  const away = new Error("away");
  const find = createVoiceBook({ voices: () => Promise.reject(away) }, { on: () => {} });
  expect(await find(ada, "alloy")).toBeUndefined();
  await expect(Promise.resolve(find(ada, adasVoice.id))).rejects.toBe(away);
});
