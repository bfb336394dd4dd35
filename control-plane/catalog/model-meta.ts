// What the owner of a model says of it.

/** Of every model, in memory. */
export interface ModelAbout {
  /** URL of a picture; empty: none. */
  readonly coverImage: string;
  readonly tags: readonly string[];
  /** Every account may read its record; who may call it is decided by offers alone. */
  readonly isShown: boolean;
  readonly isFeatured: boolean;
  /** Unix ms. */
  readonly deprecatedAtMs: number | null;
  /** Unix ms: when it will be gone. */
  readonly sunsetAtMs: number | null;
  readonly replacedBy: string | null;
}

/** What only its record shows. */
export interface ModelPapers {
  readonly githubUrl: string;
  readonly paperUrl: string;
  readonly licenseUrl: string;
  readonly readme: string;
}

/** Absent: stays as it is. */
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
