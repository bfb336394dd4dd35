import { MantineProvider } from "@mantine/core";
import "./mantine-styles.ts";
import { Notifications } from "@mantine/notifications";
import "@mantine/notifications/styles.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/app.tsx";
import { styleNonce } from "./app/visitor.ts";
import "./style.css";
import { theme } from "./theme.ts";

// The library that keeps the page behind a dialog from scrolling takes the nonce of its style from here.
(globalThis as { __webpack_nonce__?: string }).__webpack_nonce__ = styleNonce();

const queries = new QueryClient({
  // The client of the API tries again where that helps.
  defaultOptions: { queries: { retry: false, staleTime: 2000, refetchOnWindowFocus: true } },
});

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={styleNonce}>
      <Notifications position="bottom-right" />
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
