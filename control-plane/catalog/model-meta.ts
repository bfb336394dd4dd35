// Metadata that a model's owner provides.

/** In memory for every model. */
export interface ModelAbout {
  /** URL of an image; empty: none. */
  readonly coverImage: string;
  readonly tags: readonly string[];
  /** Every account may read its record; offers decide who may call it. */
  readonly isShown: boolean;
  readonly isFeatured: boolean;
  /** Unix ms. */
  readonly deprecatedAtMs: number | null;
  /** Unix ms of its planned removal. */
  readonly sunsetAtMs: number | null;
  readonly replacedBy: string | null;
}

/** Shown in its record only. */
export interface ModelPapers {
  readonly githubUrl: string;
  readonly paperUrl: string;
  readonly licenseUrl: string;
  readonly readme: string;
}

/** Undefined: unchanged. */
export interface MetaChange extends Partial<Omit<ModelAbout, "isShown">>, Partial<ModelPapers> {
  readonly description?: string;
}

export const noAbout: ModelAbout = Object.freeze({
  coverImage: "",
  tags: [],
  isShown: false,
  isFeatured: false,
  deprecatedAtMs: null,
  sunsetAtMs: null,
  replacedBy: null,
});

export const noPapers: ModelPapers = Object.freeze({ githubUrl: "", paperUrl: "", licenseUrl: "", readme: "" });
