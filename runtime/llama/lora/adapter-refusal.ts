// An adapter that cannot be loaded, as one sentence for whoever asked.
export class AdapterRefusal extends Error {
  /** It would be taken if others were unloaded. */
  readonly needsRoom: boolean;
  constructor(message: string, options: { cause?: unknown; needsRoom?: boolean } = {}) {
    super(message, options);
    this.needsRoom = options.needsRoom ?? false;
    this.name = "AdapterRefusal";
  }
}
