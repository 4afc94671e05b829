// What a page does beyond its HTML: it says whether it is live, keeps "5 min ago"
// up to date, and copies text. Everything else is htmx, and the server.
(function () {
  "use strict";

  // The server's clock decides what is how long ago.
  var ahead = Date.parse(document.body.dataset.now) - Date.now();

  function short(seconds) {
    if (seconds < 60) return Math.max(seconds, 0) + " s";
    if (seconds < 3600) return Math.floor(seconds / 60) + " min";
    if (seconds < 86400) return Math.floor(seconds / 3600) + " h " + (Math.floor(seconds / 60) % 60) + " min";
    return Math.floor(seconds / 86400) + " d " + (Math.floor(seconds / 3600) % 24) + " h";
  }

  function age() {
    var now = Date.now() + ahead;
    document.querySelectorAll("span.ago").forEach(function (span) {
      var time = span.previousElementSibling;
      if (!time || !time.dateTime) return;
      var text = short(Math.floor((now - Date.parse(time.dateTime)) / 1000)) + " ago";
      if (span.textContent !== text) span.textContent = text;
    });
  }
  setInterval(function () { if (!document.hidden) age(); }, 5000);

  // Copy buttons are there only where they work.
  function showCopy() {
    document.querySelectorAll("button.copy[hidden]").forEach(function (b) { b.hidden = false; });
  }
  function selected(text) {
    var range = document.createRange();
    range.selectNodeContents(text);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }
  document.addEventListener("click", function (e) {
    var button = e.target.closest && e.target.closest("button.copy");
    if (!button) return;
    var text = document.getElementById(button.dataset.copy);
    function say(word) {
      button.textContent = word;
      setTimeout(function () { button.textContent = "Copy"; }, 2000);
    }
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text.textContent).then(function () { say("Copied"); }, function () { selected(text); say("Selected"); });
    } else {
      selected(text);
      say("Selected");
    }
  });
  showCopy();

  // Live, or not: the stream says something every few seconds.
  var silence = 20000, last = 0, shown = "";
  function tell(state, words) {
    var live = document.getElementById("live");
    if (!live || shown === state) return;
    shown = state;
    live.dataset.state = state;
    document.getElementById("live-word").textContent = words;
  }
  document.addEventListener("htmx:sseMessage", function () {
    last = Date.now();
    tell("live", "Live");
    showCopy();
    age();
  });
  document.addEventListener("htmx:sseError", function () { tell("cut", "Not live, reconnecting"); });
  setInterval(function () {
    if (!last || document.hidden || Date.now() - last <= silence) return;
    tell("cut", "Not live, reconnecting");
    last = Date.now(); // and once more, if that does not help
    renew();
  }, 1000);

  // A page that nobody sees, or that is left, follows nothing: browsers allow few connections
  // to one server, and who comes back is told all.
  var leaving = 0;
  function renew() {
    var live = document.getElementById("live");
    if (!live || !window.htmx) return;
    var fresh = live.cloneNode(true);
    live.replaceWith(fresh);
    htmx.process(fresh);
  }
  function close() {
    var live = document.getElementById("live");
    if (!live || !window.htmx) return;
    htmx.trigger(live, "htmx:beforeCleanupElement", {});
    last = 0;
    tell("still", "Paused");
  }
  document.addEventListener("visibilitychange", function () {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(close, 15000);
    else if (shown === "still") renew();
  });
  document.addEventListener("submit", close);
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", function (e) { if (e.persisted && shown === "still") renew(); });
})();
