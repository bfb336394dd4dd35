// The part of the package that is used; it ships no types.
declare module "@echogarden/espeak-ng-emscripten" {
  interface EspeakWorker {
    /** 0: found. */
    set_voice(name: string): number;
    /** Text that ends with a 0 byte, in the module's memory; valid until the next call. */
    convert_to_phonemes(text: string, isIpa: boolean): { readonly ptr: number };
  }
  interface EspeakModule {
    readonly HEAPU8: Uint8Array;
    readonly eSpeakNGWorker: new () => EspeakWorker;
  }
  export default function load(): Promise<EspeakModule>;
}
