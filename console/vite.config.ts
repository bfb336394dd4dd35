import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** For `npm run dev:console`: a control plane that runs elsewhere answers everything but the console. */
const server = process.env["STOKER_HOST"] ?? "http://127.0.0.1:8080";

/** The control plane serves the result and puts its values in each response (control-plane/http/console/shell.ts). */
export default defineConfig({
  root: import.meta.dirname,
  base: "/console/",
  plugins: [
    react(),
    {
      name: "values-of-the-installation",
      apply: "serve",
      transformIndexHtml: (page) => page.replace("STOKER_SIGN_UP", "open").replace("STOKER_URL", server),
    },
  ],
  html: { cspNonce: "STOKER_NONCE" },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    // Those that know light-dark(): what would replace it needs a colour scheme that these styles do not set.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    // Libraries that most pages use go into one file, so that the first load takes few requests.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: "parts", test: "node_modules", minShareCount: 10 }] } },
    },
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { "^/(?!console)": { target: server, changeOrigin: false } } },
});
