// Keeps the page as it would be if it were loaded now: hears of changes, asks for the page again, takes over what differs.
const SAY_EVERY_MS = 30000;

let asking = false;
let again = false;
let saidAt = 0;

function tell(state, text) {
  const pulse = document.querySelector("[data-pulse]");
  if (!pulse) return;
  pulse.dataset.pulse = state;
  pulse.querySelector("[data-pulse-text]").textContent = text;
}

function isLeftAlone(node) {
  return node.nodeType === Node.ELEMENT_NODE && (node.hasAttribute("data-keep") || node.tagName === "FORM");
}

export function takeOver(html, draw) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const old = document.getElementById("main");
  const main = fresh.getElementById("main");
  if (!main) return;
  Idiomorph.morph(old, main.innerHTML, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (node) => !isLeftAlone(node),
      // What a reader has opened stays open.
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") && !(name === "class" && node.tagName === "LI"),
      afterNodeAdded: (node) => {
        if (node.nodeType === Node.ELEMENT_NODE && node.matches(".story > li")) node.classList.add("fresh");
      },
    },
  });
  document.title = fresh.title;
  draw(old);
}

async function renew(draw) {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Tenure-Live": "1" } });
    if (answer.status === 401) location.reload();
    if (answer.ok) {
      takeOver(await answer.text(), draw);
      const now = new Date();
      tell("live", "Live");
      requestAnimationFrame(() => tell("fresh", "Live"));
      document.body.dataset.renewed = String(Number(document.body.dataset.renewed ?? 0) + 1);
      if (now - saidAt > SAY_EVERY_MS) {
        saidAt = now;
        document.querySelector("[data-said]").textContent = `Updated at ${now.toLocaleTimeString()}.`;
      }
    }
  } catch {
    tell("lost", "Reconnecting");
  } finally {
    asking = false;
    if (again) {
      again = false;
      setTimeout(() => renew(draw), 250);
    }
  }
}

export function follow(address, draw) {
  let known = null;
  const source = new EventSource(address);
  source.addEventListener("now", (event) => {
    tell("live", "Live");
    // After an interruption the page may have missed something.
    if (known !== null && known !== event.data) renew(draw);
    known = event.data;
  });
  source.addEventListener("changed", (event) => {
    known = event.data;
    renew(draw);
  });
  source.addEventListener("signed-out", () => location.reload());
  source.addEventListener("error", () => {
    tell("lost", "Reconnecting");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => renew(draw), 2000);
  });
}
