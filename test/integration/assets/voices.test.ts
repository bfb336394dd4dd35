// Voices of accounts on a real PostgreSQL.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { voiceSamples } from "../../../control-plane/accounts/seals.ts";
import { createVoices, maxVoices } from "../../../control-plane/assets/voices.ts";
import { createProfileStore } from "../../../control-plane/store/accounts/profile-store.ts";
import { createVoiceStore } from "../../../control-plane/store/work/voices-store.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const recording = Buffer.from("RIFF a recording of ada, told apart by these words");
const samples = [
  { contentType: "audio/wav", bytes: recording },
  { contentType: "audio/mpeg", bytes: Buffer.from("ID3 another") },
];
const blend = { model: "org/model", blend: "af_heart:0.7,am_adam:0.3", measured: { median_pitch_hz: 190.5 } };
const request = { name: "Ada", description: "calm" };

async function twoPeople() {
  const world = await openWorld(postgres);
  const handlers: ((account: string) => void)[] = [];
  const dataKeys = createDataKeys({ store: world.accountStore, secrets: world.secrets });
  const voices = createVoices({
    store: createVoiceStore(world.db),
    seal: voiceSamples(dataKeys),
    changes: { on: (_topic, handler) => handlers.push(handler) },
  });
  const make = async (name: string) =>
    (
      await world.accounts.createAccount({
        email: `${name}@example.com`,
        displayName: name,
        creditNanoUsd: nano(0n),
        isAdmin: false,
      })
    ).account;
  const changed = (account: string) => handlers.forEach((handler) => void handler(account));
  return { world, voices, changed, ada: await make("ada"), bob: await make("bob") };
}

describe("a voice", () => {
  it("is stored with its blend, and its recordings sealed", async () => {
    const { world, voices, ada } = await twoPeople();
    const made = await voices.add(ada, request, samples, blend);
    expect(made).toMatchObject({ ...request, blends: [blend] });
    expect(await voices.get(ada, made.id)).toEqual(made);
    expect(await voices.samples(ada, made)).toEqual(samples);
    const { rows } = await world.pool.query("select sealed from voice_sample order by place");
    expect(rows.length).toBe(2);
    for (const { sealed } of rows) expect(sealed.includes("recording of ada")).toBe(false);
  });

  it("does not exist for another account, for any operation", async () => {
    const { voices, ada, bob } = await twoPeople();
    const made = await voices.add(ada, request, samples, blend);
    await expect(voices.get(bob, made.id)).rejects.toMatchObject({ code: "voice_not_found" });
    await expect(voices.edit(bob, made.id, "Bob's", undefined)).rejects.toMatchObject({ code: "voice_not_found" });
    await expect(voices.remove(bob, made.id)).rejects.toMatchObject({ code: "voice_not_found" });
    await voices.keepBlend(bob, made, { ...blend, model: "org/bobs" });
    expect(await voices.list(bob)).toEqual([]);
    expect([await voices.find(bob, made.id), await voices.find(bob, "Ada")]).toEqual([undefined, undefined]);
    expect(await voices.samples(bob, made)).toEqual([]);
    expect(await voices.get(ada, made.id)).toEqual(made);
    // Names are each account's own.
    await voices.add(bob, request, samples, blend);
  });

  it("has a unique name in its account, different from a model's own voices", async () => {
    const { voices, ada } = await twoPeople();
    const first = await voices.add(ada, request, samples, blend);
    const second = await voices.add(ada, { ...request, name: "Ada 2" }, samples, blend);
    await expect(voices.mayAdd(ada, "Ada", samples)).rejects.toMatchObject({ code: "name_taken" });
    await expect(voices.mayAdd(ada, "af_bella", samples)).rejects.toMatchObject({ code: "name_taken" });
    await expect(voices.add(ada, request, samples, blend)).rejects.toMatchObject({ code: "name_taken" });
    await expect(voices.edit(ada, second.id, "Ada", "")).rejects.toMatchObject({ code: "name_taken" });
    const edited = await voices.edit(ada, first.id, "Ada", "brisk");
    expect([edited.name, edited.description]).toEqual(["Ada", "brisk"]);
    expect((await voices.edit(ada, first.id, "Ada again", undefined)).description).toBe("brisk");
  });

  it("is one of at most thirty, also with concurrent additions", async () => {
    const { world, voices, ada } = await twoPeople();
    for (let i = 0; i < maxVoices - 1; i++)
      await world.pool.query("insert into voice (voice_id, account_id, name, description) values ($1, $2, $1, '')", [
        `voice-${i}`,
        ada,
      ]);
    const added = await Promise.allSettled(
      [1, 2, 3].map((i) => voices.add(ada, { ...request, name: `late ${i}` }, samples, blend)),
    );
    expect(added.filter(({ status }) => status === "fulfilled").length).toBe(1);
    await expect(voices.mayAdd(ada, "one more", samples)).rejects.toMatchObject({ code: "voice_slots_full" });
  });

  it("has a blend for each model that created one", async () => {
    const { voices, ada } = await twoPeople();
    const made = await voices.add(ada, request, samples, blend);
    const other = { ...blend, model: "org/other" };
    await voices.keepBlend(ada, made, other);
    await voices.keepBlend(ada, made, { ...other, blend: "measured twice at once" });
    expect((await voices.get(ada, made.id)).blends).toEqual([blend, other]);
  });

  it("is deleted with its recordings, by its owner or with the account", async () => {
    const { world, voices, ada } = await twoPeople();
    const left = async () =>
      (await world.pool.query("select (select count(*) from voice) + (select count(*) from voice_sample) as n")).rows[0]
        .n;
    await voices.remove(ada, (await voices.add(ada, request, samples, blend)).id);
    expect(Number(await left())).toBe(0);
    await voices.add(ada, request, samples, blend);
    await createProfileStore(world.db).end({ account: ada, ip: "192.0.2.1" });
    expect(Number(await left())).toBe(0);
  });

  it("is cached until a change notification, so that another replica's edit applies immediately", async () => {
    const { world, voices, changed, ada } = await twoPeople();
    const made = await voices.add(ada, request, samples, blend);
    expect((await voices.find(ada, "Ada"))?.id).toBe(made.id);
    await world.pool.query("update voice set name = 'renamed elsewhere'");
    const inMemory = voices.find(ada, "Ada");
    expect(inMemory).not.toBeInstanceOf(Promise);
    changed(ada);
    expect(await voices.find(ada, "Ada")).toBeUndefined();
    expect((await voices.find(ada, "renamed elsewhere"))?.id).toBe(made.id);
  });
});
