// Engines that serve weights which a host fetches.

/** Engines of other projects: a host runs those for which its operator set an image or a program. */
export const foreignEngines = ["vllm", "sglang", "llamacpp"] as const;
export type ForeignEngine = (typeof foreignEngines)[number];

export const modelEngines = ["stoker", ...foreignEngines] as const;
export type ModelEngine = (typeof modelEngines)[number];

export const isForeignEngine = (engine: string): engine is ForeignEngine =>
  (foreignEngines as readonly string[]).includes(engine);

export const isModelEngine = (engine: string): engine is ModelEngine =>
  (modelEngines as readonly string[]).includes(engine);

/** Setting of an agent with the engine's image. */
export const imageSetting = (engine: ForeignEngine) => `STOKER_${engine.toUpperCase()}_IMAGE`;

/** Setting of an agent without containers with the engine's program; undefined: the engine runs in containers only. */
export const programSetting = (engine: ForeignEngine): string | undefined =>
  engine === "sglang" ? undefined : `STOKER_${engine.toUpperCase()}_BIN`;

/** Reads GGUF files, of which one is chosen, unless a deployment names another format. */
export const readsGguf = (engine: string): boolean => engine === "stoker" || engine === "llamacpp";

/** Tokens of one request where the deployment of an engine that allocates them all at start names no length. */
export const defaultSlotContext = 4_096;
